//! What happened, as a hash of all of it and the last lines to read. The same seed and commit give
//! the same hash (P7).

use std::collections::VecDeque;

use rekindle_types::Tick;

/// So many lines are kept to be read.
const LINES_MAX: usize = 400;
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// FNV-1a of bytes.
pub(crate) fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    fnv_on(FNV_OFFSET, bytes)
}

fn fnv_on(hash: u64, bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME))
}

/// The trace of a run.
#[derive(Clone, Debug)]
pub struct Trace {
    hash: u64,
    steps: u64,
    lines: VecDeque<String>,
    /// As it was when the first promise was broken.
    breach: Option<BreachTrace>,
}

/// A trace up to the line that tells of a broken promise.
#[derive(Clone, Debug)]
struct BreachTrace {
    steps: u64,
    lines: VecDeque<String>,
}

impl Default for Trace {
    fn default() -> Self {
        Self { hash: FNV_OFFSET, steps: 0, lines: VecDeque::new(), breach: None }
    }
}

impl Trace {
    /// Adds a line.
    pub fn add(&mut self, now: Tick, what: &str) {
        let (seconds, micros) = (now.as_micros() / 1_000_000, now.as_micros() % 1_000_000);
        let line = format!("{seconds:>7}.{micros:06}s {what}");
        self.hash = fnv_on(self.hash, line.bytes());
        self.steps += 1;
        if self.lines.len() == LINES_MAX {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// Adds the line that tells of a broken promise. The trace up to the first of these is what is
    /// shown of it, whatever happens after that.
    pub(crate) fn add_breach(&mut self, now: Tick, what: &str) {
        self.add(now, &format!("BROKEN {what}"));
        let (steps, lines) = (self.steps, &self.lines);
        self.breach.get_or_insert_with(|| BreachTrace { steps, lines: lines.clone() });
    }

    /// How many lines there were when the first promise was broken, and the last of them, oldest
    /// first; those of all when none was.
    pub(crate) fn up_to_breach(&self) -> (u64, Vec<String>) {
        let (steps, lines) = match &self.breach {
            Some(breach) => (breach.steps, &breach.lines),
            None => (self.steps, &self.lines),
        };
        (steps, lines.iter().cloned().collect())
    }

    /// Of every line so far (FNV-1a).
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// How many lines there were.
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// The last lines, oldest first.
    pub fn last_lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }
}
