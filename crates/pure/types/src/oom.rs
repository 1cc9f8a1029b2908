//! What is known of a container that was killed for lack of memory: read from its cgroup when it
//! died, carried to people as words in `state.terminated.message`, and read back from them by who
//! tells of it.

use std::fmt;

/// How the words begin.
const BEGIN: &str = "OOM killer: ";

/// What the cgroup said when the container died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OomKill {
    /// Processes of the container that the kernel killed for lack of memory, in this run of it.
    pub kills: u64,
    /// Its memory limit in bytes; none when it has none of its own: the pod's or the machine's
    /// memory was full.
    pub limit_bytes: Option<u64>,
    /// The most bytes that it ever used at once in this run; none where the kernel does not count
    /// that.
    pub peak_bytes: Option<u64>,
}

/// `OOM killer: 1 kill, limit 67108864 bytes, peak 67108864 bytes`.
impl fmt::Display for OomKill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kills = if self.kills == 1 { "kill" } else { "kills" };
        write!(f, "{BEGIN}{} {kills}", self.kills)?;
        match self.limit_bytes {
            Some(limit) => write!(f, ", limit {limit} bytes")?,
            None => write!(f, ", no limit of its own")?,
        }
        match self.peak_bytes {
            Some(peak) => write!(f, ", peak {peak} bytes"),
            None => Ok(()),
        }
    }
}

impl OomKill {
    /// Takes the words apart that a message begins with; the rest of it is what the container said
    /// itself. None when it does not begin so.
    pub fn split(message: &str) -> Option<(Self, &str)> {
        let rest = message.strip_prefix(BEGIN)?;
        let (kills, rest) = rest.split_once(' ')?;
        let rest = rest.strip_prefix("kills").or_else(|| rest.strip_prefix("kill"))?;
        let (limit_bytes, rest) = match rest.strip_prefix(", no limit of its own") {
            Some(rest) => (None, rest),
            None => amount(rest, ", limit ").map(|(limit, rest)| (Some(limit), rest))?,
        };
        let (peak_bytes, rest) = match amount(rest, ", peak ") {
            Some((peak, rest)) => (Some(peak), rest),
            None => (None, rest),
        };
        let kill = Self { kills: kills.parse().ok()?, limit_bytes, peak_bytes };
        match rest.strip_prefix(": ") {
            Some(own) => Some((kill, own)),
            None => rest.is_empty().then_some((kill, "")),
        }
    }
}

/// `, limit 64 bytes…` → 64 and what follows.
fn amount<'a>(text: &'a str, begin: &str) -> Option<(u64, &'a str)> {
    let (number, rest) = text.strip_prefix(begin)?.split_once(" bytes")?;
    Some((number.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_with_what_the_container_said_after_it() {
        for kill in [
            OomKill { kills: 1, limit_bytes: Some(67_108_864), peak_bytes: Some(67_100_672) },
            OomKill { kills: 12, limit_bytes: None, peak_bytes: None },
            OomKill { kills: 2, limit_bytes: Some(1), peak_bytes: None },
            OomKill { kills: 1, limit_bytes: None, peak_bytes: Some(u64::MAX) },
        ] {
            let words = kill.to_string();
            assert_eq!(OomKill::split(&words), Some((kill, "")), "{words}");
            let both = format!("{words}: cache: full");
            assert_eq!(OomKill::split(&both), Some((kill, "cache: full")), "{both}");
        }
    }

    #[test]
    fn other_messages_are_not_taken_for_it() {
        for message in [
            "",
            "OOM",
            "OOM killer: ",
            "OOM killer: many kills",
            "OOM killer: 1 kill, limit x bytes",
        ] {
            assert_eq!(OomKill::split(message), None, "{message}");
        }
    }
}
