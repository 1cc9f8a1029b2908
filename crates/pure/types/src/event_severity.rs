//! The `type` of an Event.

/// The `type` of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventSeverity {
    /// As it should be.
    Normal,
    /// A person may want to look.
    Warning,
}

impl EventSeverity {
    /// As the API spells it.
    pub const fn name(self) -> &'static str {
        match self {
            EventSeverity::Normal => "Normal",
            EventSeverity::Warning => "Warning",
        }
    }
}
