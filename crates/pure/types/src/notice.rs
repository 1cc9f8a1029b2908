//! Whether what runs knows that it is to end.

/// Whether a process was asked to end, as far as its runtime knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StopNotice {
    /// No signal was sent to it.
    #[default]
    NotGiven,
    /// Its stop signal was sent, or SIGKILL.
    Given,
}
