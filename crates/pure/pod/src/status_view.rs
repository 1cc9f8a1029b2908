//! What a status is built from. `status`, `phase` and `conditions` read it, each for its part.

use k8s_openapi::api::core::v1::PodStatus;

use crate::containers::Containers;
use crate::context::PodContext;

/// What a status is built from.
#[derive(Clone, Copy)]
pub(crate) struct StatusView<'a> {
    pub(crate) context: PodContext<'a>,
    pub(crate) containers: &'a Containers,
    /// The status as it was.
    pub(crate) before: &'a PodStatus,
}
