//! How an object changes through a subresource: one strategy for each, which prepares the new
//! object and validates the change.

use rekindle_types::validation::field_error::FieldError;

use super::resource::{RequestContext, Subresource};

/// Which part of an object a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectPart {
    /// Everything but status.
    Main,
    /// Status.
    Status,
    /// The `spec.finalizers` of a namespace.
    Finalize,
    /// The resources of a pod and its containers.
    Resize,
    /// The `spec.ephemeralContainers` of a pod.
    EphemeralContainers,
    /// The conditions of a signing request, with those that approve and deny it.
    Approval,
}

impl ObjectPart {
    /// Whether a write changes a few fields only, and everything else that it says is dropped:
    /// upstream's filters of reset fields.
    pub fn is_few_fields(self) -> bool {
        match self {
            Self::Resize | Self::EphemeralContainers => true,
            Self::Main | Self::Status | Self::Finalize | Self::Approval => false,
        }
    }
}

/// The subresource `/status`.
#[derive(Clone, Copy, Debug)]
pub struct StatusPart;

/// The subresource `/resize`.
#[derive(Clone, Copy, Debug)]
pub struct ResizePart;

/// The subresource `/ephemeralcontainers`.
#[derive(Clone, Copy, Debug)]
pub struct EphemeralPart;

/// The subresource `/approval`.
#[derive(Clone, Copy, Debug)]
pub struct ApprovalPart;

/// What an update through the subresource `P` does to an object of this kind.
pub trait SubresourceStrategy<P> {
    /// Whether an update leaves all of the metadata as it is. Its writer owns nothing of it then.
    const KEEPS_METADATA: bool = false;

    /// Before the update: keeps everything that is not of the subresource (but what Kubernetes lets
    /// through with it), and raises `metadata.generation` when the spec changed.
    fn prepare_part(&mut self, old: &Self, ctx: &RequestContext<'_>);

    /// Everything wrong with the change from `old`. Where the subresource is part of the spec,
    /// [`super::ApiKind::validate`] has run as well.
    fn validate_part(&self, _old: &Self) -> Vec<FieldError> {
        Vec::new()
    }
}

/// A strategy as a value.
struct KindStrategy<K> {
    keeps_metadata: bool,
    prepare: fn(&mut K, &K, &RequestContext<'_>),
    validate: fn(&K, &K) -> Vec<FieldError>,
}

impl<K> KindStrategy<K> {
    const fn new<P>() -> Self
    where
        K: SubresourceStrategy<P>,
    {
        Self {
            keeps_metadata: K::KEEPS_METADATA,
            prepare: K::prepare_part,
            validate: K::validate_part,
        }
    }
}

impl<K> Clone for KindStrategy<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for KindStrategy<K> {}

/// The strategies of a kind. It has one for each subresource that it serves updates of; of
/// `/finalize` the machinery knows how.
pub struct Strategies<K> {
    status: Option<KindStrategy<K>>,
    resize: Option<KindStrategy<K>>,
    ephemeral_containers: Option<KindStrategy<K>>,
    approval: Option<KindStrategy<K>>,
}

impl<K> Clone for Strategies<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Strategies<K> {}

impl<K> Strategies<K> {
    /// Of a kind without such subresources.
    pub const NONE: Self =
        Self { status: None, resize: None, ephemeral_containers: None, approval: None };

    /// Of a kind with `/status`.
    pub const fn of_status() -> Self
    where
        K: SubresourceStrategy<StatusPart>,
    {
        Self { status: Some(KindStrategy::new::<StatusPart>()), ..Self::NONE }
    }

    /// The same with `/resize`.
    pub const fn with_resize(self) -> Self
    where
        K: SubresourceStrategy<ResizePart>,
    {
        Self { resize: Some(KindStrategy::new::<ResizePart>()), ..self }
    }

    /// The same with `/ephemeralcontainers`.
    pub const fn with_ephemeral_containers(self) -> Self
    where
        K: SubresourceStrategy<EphemeralPart>,
    {
        Self { ephemeral_containers: Some(KindStrategy::new::<EphemeralPart>()), ..self }
    }

    /// The same with `/approval`.
    pub const fn with_approval(self) -> Self
    where
        K: SubresourceStrategy<ApprovalPart>,
    {
        Self { approval: Some(KindStrategy::new::<ApprovalPart>()), ..self }
    }

    /// Whether there is a strategy for each of these subresources that is updated through one, and
    /// for no other.
    pub(super) const fn are_of(&self, served: &[Subresource]) -> bool {
        let (mut status, mut resize) = (false, false);
        let (mut ephemeral_containers, mut approval) = (false, false);
        let mut at = 0;
        while at < served.len() {
            match served[at] {
                Subresource::Status => status = true,
                Subresource::Resize => resize = true,
                Subresource::EphemeralContainers => ephemeral_containers = true,
                Subresource::Approval => approval = true,
                Subresource::Scale
                | Subresource::Binding
                | Subresource::Eviction
                | Subresource::Log
                | Subresource::Exec
                | Subresource::Attach
                | Subresource::PortForward
                | Subresource::Finalize
                | Subresource::Token
                | Subresource::Proxy
                | Subresource::NodeProxy => {}
            }
            at += 1;
        }
        self.status.is_some() == status
            && self.resize.is_some() == resize
            && self.ephemeral_containers.is_some() == ephemeral_containers
            && self.approval.is_some() == approval
    }

    /// Prepares `new` for an update of `part`.
    pub(super) fn prepare(&self, part: ObjectPart, new: &mut K, old: &K, ctx: &RequestContext<'_>) {
        if let Some(strategy) = self.of_part(part) {
            (strategy.prepare)(new, old, ctx);
        }
    }

    /// Whether an update of `part` leaves all of the metadata as it is.
    pub(super) fn keeps_metadata(&self, part: ObjectPart) -> bool {
        self.of_part(part).is_some_and(|strategy| strategy.keeps_metadata)
    }

    /// Everything wrong with an update of `part`.
    pub(super) fn validate(&self, part: ObjectPart, new: &K, old: &K) -> Vec<FieldError> {
        self.of_part(part).map_or_else(Vec::new, |strategy| (strategy.validate)(new, old))
    }

    fn of_part(&self, part: ObjectPart) -> Option<KindStrategy<K>> {
        match part {
            ObjectPart::Main | ObjectPart::Finalize => None,
            ObjectPart::Status => self.status,
            ObjectPart::Resize => self.resize,
            ObjectPart::EphemeralContainers => self.ephemeral_containers,
            ObjectPart::Approval => self.approval,
        }
    }
}
