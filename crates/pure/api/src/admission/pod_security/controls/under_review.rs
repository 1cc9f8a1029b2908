//! A pod as the controls see it: all of its containers alike, the ephemeral ones too.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, ContainerPort, Lifecycle, PodSecurityContext, PodSpec, Probe, SecurityContext,
    Volume,
};
use rekindle_kinds::validation::items;

/// A pod, or the template of one. Made once for all controls.
pub(in crate::admission::pod_security) struct PodUnderReview<'a> {
    /// Its annotations.
    pub(super) annotations: Option<&'a BTreeMap<String, String>>,
    /// Its spec.
    pub(super) spec: &'a PodSpec,
    /// Init containers, containers, ephemeral containers.
    pub(super) containers: Vec<ContainerUnderReview<'a>>,
}

/// What the controls look at in a container of any kind.
pub(super) struct ContainerUnderReview<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// The image it names.
    pub(super) image: &'a str,
    /// Its security context.
    pub(super) security: Option<&'a SecurityContext>,
    /// Its ports.
    pub(super) ports: &'a [ContainerPort],
    /// Liveness, readiness and startup probe.
    pub(super) probes: [Option<&'a Probe>; 3],
    /// Its hooks.
    pub(super) lifecycle: Option<&'a Lifecycle>,
}

/// The view of a container, whatever its type.
macro_rules! view {
    ($container:expr) => {
        ContainerUnderReview {
            name: &$container.name,
            image: $container.image.as_deref().unwrap_or_default(),
            security: $container.security_context.as_ref(),
            ports: items($container.ports.as_ref()),
            probes: [
                $container.liveness_probe.as_ref(),
                $container.readiness_probe.as_ref(),
                $container.startup_probe.as_ref(),
            ],
            lifecycle: $container.lifecycle.as_ref(),
        }
    };
}

impl<'a> PodUnderReview<'a> {
    /// The pod of this spec.
    pub(in crate::admission::pod_security) fn new(
        annotations: Option<&'a BTreeMap<String, String>>,
        spec: &'a PodSpec,
    ) -> Self {
        let init = items(spec.init_containers.as_ref()).iter().map(|one| view!(one));
        let regular = spec.containers.iter().map(|one| view!(one));
        let ephemeral = items(spec.ephemeral_containers.as_ref()).iter().map(|one| view!(one));
        Self { annotations, spec, containers: init.chain(regular).chain(ephemeral).collect() }
    }

    /// The security context of the pod itself.
    pub(super) fn security(&self) -> Option<&'a PodSecurityContext> {
        self.spec.security_context.as_ref()
    }

    /// Its volumes.
    pub(super) fn volumes(&self) -> &'a [Volume] {
        items(self.spec.volumes.as_ref())
    }

    /// The names of the containers for which this holds.
    pub(super) fn containers_that(
        &self,
        mut test: impl FnMut(&ContainerUnderReview<'a>) -> bool,
    ) -> Vec<&'a str> {
        let bad = self.containers.iter().filter(|container| test(container));
        bad.map(|container| container.name).collect()
    }

    /// The names of the containers with a security context for which this holds.
    pub(super) fn containers_with_context(
        &self,
        mut test: impl FnMut(&'a SecurityContext) -> bool,
    ) -> Vec<&'a str> {
        self.containers_that(|container| container.security.is_some_and(&mut test))
    }

    /// Whether the pod has users of its own: its root has no rights on the node then (KEP-127).
    pub(super) fn has_own_users(&self) -> bool {
        self.spec.host_users == Some(false)
    }

    /// Whether it is for Windows: fields that only Linux has cannot be asked of it.
    pub(super) fn is_windows(&self) -> bool {
        self.spec.os.as_ref().is_some_and(|os| os.name == "windows")
    }
}

impl<'a> ContainerUnderReview<'a> {
    /// Its capabilities.
    pub(super) fn capabilities(&self) -> Option<&'a Capabilities> {
        self.security?.capabilities.as_ref()
    }
}
