//! Units, clocks, random numbers and mergeable histograms.
//!
//! The floor of the house: names no other crate, does no I/O, and knows no plan and no device.
//! `clock` is the only place in the workspace that reads time.

pub mod clock;
pub mod hist;
pub mod permutation;
pub mod rng;
pub mod sample;
pub mod units;
pub mod varint;
