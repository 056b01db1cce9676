//! Checks that hold the house plan: the crate graph, where `unsafe` and printing may stand, lengths,
//! licences. They run as tests; there is nothing else here.

#[cfg(test)]
mod tests;
