//! How many nodes an engine has.

use std::str::FromStr;

/// Nodes at most when the user only says `auto`.
const AUTO_MAX: u8 = 4;

/// What `--nodes` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodesWanted {
    /// So many, and those that were added by hand.
    AtLeast(u8),
    /// As many as pods need, between these bounds.
    Auto {
        /// At least.
        min: u8,
        /// At most.
        max: u8,
    },
}

impl NodesWanted {
    /// How many there are to begin with.
    pub fn at_least(self) -> u8 {
        match self {
            Self::AtLeast(number) => number,
            Self::Auto { min, .. } => min,
        }
    }
}

impl FromStr for NodesWanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            let number = text.parse().ok().filter(|number: &u8| *number > 0);
            number.ok_or_else(|| format!("{text:?} is no number from 1 to 255"))
        };
        match text.split_once('=') {
            None if text == "auto" => Ok(Self::Auto { min: 1, max: AUTO_MAX }),
            None => number(text)
                .map(Self::AtLeast)
                .map_err(|_| "give a number from 1 to 255, auto, or auto=MIN..MAX".to_owned()),
            Some(("auto", bounds)) => {
                let (min, max) = bounds.split_once("..").ok_or("give auto=MIN..MAX")?;
                let (min, max) = (number(min)?, number(max)?);
                if min > max {
                    return Err(format!("at least {min} nodes are more than at most {max}"));
                }
                Ok(Self::Auto { min, max })
            }
            Some(_) => Err("give a number from 1 to 255, auto, or auto=MIN..MAX".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_or_bounds_and_nothing_else() {
        for (text, wanted) in [
            ("3", NodesWanted::AtLeast(3)),
            ("auto", NodesWanted::Auto { min: 1, max: AUTO_MAX }),
            ("auto=2..7", NodesWanted::Auto { min: 2, max: 7 }),
            ("auto=2..2", NodesWanted::Auto { min: 2, max: 2 }),
        ] {
            assert_eq!(text.parse(), Ok(wanted), "{text}");
        }
        for wrong in
            ["", "0", "-1", "256", "many", "auto=", "auto=3", "auto=3..2", "auto=0..2", "x=1..2"]
        {
            assert!(wrong.parse::<NodesWanted>().is_err(), "{wrong}");
        }
    }
}
