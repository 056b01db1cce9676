//! Which CPUs the workers run on.

use std::fmt;
use std::str::FromStr;

/// Which CPUs the workers of a target run on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Those near the device, where the host has nearer ones and farther ones.
    #[default]
    Local,
    /// Those that are not near it.
    Far,
    /// All, those of one node after those of the other in turns.
    Spread,
    /// These.
    Cores(Vec<usize>),
}

/// The largest number of a CPU.
const CPU_MAX: usize = 1023;

impl FromStr for Placement {
    type Err = String;

    fn from_str(text: &str) -> Result<Placement, String> {
        let cores = match text {
            "local" => return Ok(Placement::Local),
            "far" => return Ok(Placement::Far),
            "spread" => return Ok(Placement::Spread),
            other => other.strip_prefix("cores="),
        };
        let wrong = || format!("`{text}`: a placement is local, far, spread or cores=0-3,8");
        let mut all = Vec::new();
        for part in cores.ok_or_else(wrong)?.split(',') {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
            let (from, to) = (number(from)?, number(to)?);
            if from > to || to > CPU_MAX {
                return Err(wrong());
            }
            all.extend((from..=to).filter(|cpu| !all.contains(cpu)).collect::<Vec<_>>());
        }
        Ok(Placement::Cores(all))
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::Local => write!(f, "local"),
            Placement::Far => write!(f, "far"),
            Placement::Spread => write!(f, "spread"),
            Placement::Cores(cores) => {
                let list: Vec<String> = cores.iter().map(usize::to_string).collect();
                write!(f, "cores={}", list.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_read_and_said() {
        let cores = "cores=0-2,5,1".parse::<Placement>().unwrap();
        assert_eq!(cores, Placement::Cores(vec![0, 1, 2, 5]));
        assert_eq!(cores.to_string(), "cores=0,1,2,5");
        for word in ["local", "far", "spread"] {
            assert_eq!(word.parse::<Placement>().unwrap().to_string(), word);
        }
        for wrong in ["near", "cores=", "cores=3-1", "cores=0-9999999999", "0-3"] {
            assert!(wrong.parse::<Placement>().unwrap_err().contains("cores=0-3,8"), "{wrong}");
        }
    }
}
