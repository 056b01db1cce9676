//! The suites that ship inside the program: plan files and nothing else.

/// A plan that ships inside the program.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

macro_rules! builtin {
    ($($name:literal),* $(,)?) => {
        &[$(Builtin {
            name: $name,
            text: include_str!(concat!("../../../plans/", $name, ".toml")),
        }),*]
    };
}

/// All of them, in the order they are listed.
pub const BUILTIN: &[Builtin] = builtin![
    "quick",
    "cdm",
    "cdm-nvme",
    "four-corners",
    "depth-sweep",
    "thread-sweep",
    "qos",
    "curve-4k-read",
    "curve-4k-write",
    "curve-64k-read",
    "curve-64k-write",
    "review-precondition",
    "oracle",
    "sql",
    "vdi",
    "vsi",
    "vdi-boot",
    "vdi-login",
    "vdi-monday",
    "oltp",
    "oltp-8k",
    "jesd219",
    "file-server",
    "storagereview",
    "kioxia-matrix",
    "review",
    "data-check",
    "ezfio",
    "pts-iops",
    "pts-throughput",
    "pts-latency",
    "pts-wsat",
    "pts-hir",
    "pts-xsr",
    "pts-cbw",
    "pts-dirth",
    "pts",
];

/// The built-in plan of a name.
pub fn find_builtin(name: &str) -> Option<Builtin> {
    BUILTIN.iter().copied().find(|plan| plan.name == name)
}
