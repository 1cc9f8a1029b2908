//! How much is recorded of a request, and when.

use serde::Serialize;

/// How much is recorded of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum AuditLevel {
    /// Nothing.
    None,
    /// Who did what, when and with which result; no bodies.
    Metadata,
    /// Also the body of the request.
    Request,
    /// Also the body of the answer.
    RequestResponse,
}

impl AuditLevel {
    /// Every level, from the least.
    pub(crate) const ALL: [Self; 4] =
        [Self::None, Self::Metadata, Self::Request, Self::RequestResponse];

    /// As a policy writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// How far a request has come when an event is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum AuditStage {
    /// The server has received it, and knows the user.
    RequestReceived,
    /// The answer has begun and goes on, as that of a watch does.
    ResponseStarted,
    /// The answer is complete.
    ResponseComplete,
    /// Its handling has panicked.
    Panic,
}

impl AuditStage {
    /// Every stage.
    pub(crate) const ALL: [Self; 4] =
        [Self::RequestReceived, Self::ResponseStarted, Self::ResponseComplete, Self::Panic];

    /// As a policy writes it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.name() == name)
    }
}

/// Some of the stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageSet(u8);

impl StageSet {
    /// None of them.
    pub(crate) const NONE: Self = Self(0);

    /// Whether the stage is one of them.
    pub const fn contains(self, stage: AuditStage) -> bool {
        self.0 & Self::bit(stage) != 0
    }

    pub(crate) const fn with(self, stage: AuditStage) -> Self {
        Self(self.0 | Self::bit(stage))
    }

    pub(crate) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn bit(stage: AuditStage) -> u8 {
        1 << stage as u8
    }
}
