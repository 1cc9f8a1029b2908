//! What an exit code means by itself.

use rekindle_types::exit::signal_name;

/// What an exit code means. A shell's codes, and 128 + N for signal N, may also be the program's
/// own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitMeaning {
    /// 0.
    Success,
    /// 126: a shell's code for a command that cannot be executed.
    NotExecutable,
    /// 127: a shell's code for a command that is missing.
    CommandMissing,
    /// The signal of this number and name ended it.
    Signal(i32, &'static str),
    /// The program's own.
    Own,
}

impl ExitMeaning {
    /// What this code means.
    pub(crate) fn new(exit_code: i32) -> Self {
        match exit_code {
            0 => Self::Success,
            126 => Self::NotExecutable,
            127 => Self::CommandMissing,
            code => {
                let signal = code.saturating_sub(128);
                signal_name(signal).map_or(Self::Own, |name| Self::Signal(signal, name))
            }
        }
    }
}
