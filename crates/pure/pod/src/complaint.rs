//! Why a container waits, as the status shows it.

/// Why a container waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Complaint {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}
