//! Runs inside the virtual machine: what a scenario does there, one line a check.

mod compare;
mod cut;
mod faults;
mod kit;
mod model;
mod pass;
mod pcie;
mod record;
mod sata;

use kit::Guest;

fn main() {
    let scenario = std::env::args().nth(1).unwrap_or_default();
    let mut guest = Guest::new();
    match scenario.as_str() {
        "faults" => faults::run(&mut guest),
        "sata" => sata::run(&mut guest),
        "cut" => cut::before(&mut guest),
        "after-cut" => cut::after(&mut guest),
        "model" => model::run(&mut guest),
        "pcie" => {
            pcie::run(&mut guest);
            pass::run(&mut guest);
            record::run(&mut guest);
        }
        other => guest.check("the scenario is known", |_| Err(format!("`{other}`"))),
    }
    println!("{} passed, {} failed", guest.passed, guest.failed);
}
