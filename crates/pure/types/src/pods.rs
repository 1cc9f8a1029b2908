//! What a Pod says of itself, for all who ask.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Affinity, Container, ContainerRestartRule, Pod, PodCondition, PodSpec, ResourceRequirements,
    Toleration, Volume,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::amounts::{Amounts, limits, requests};
use crate::ids::{PodRef, PodUid};

/// A pod as the kubelet's messages name it: [`PodRef::in_full`], whatever of it is missing.
pub fn in_full(metadata: &ObjectMeta) -> String {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    PodRef {
        namespace: text(&metadata.namespace),
        name: text(&metadata.name),
        uid: PodUid(text(&metadata.uid)),
    }
    .in_full()
}

/// A pod, however it is held: as the API has it, or as [`held::HeldPod`](crate::held::HeldPod).
pub trait AnyPod {
    /// The type of its spec.
    type Spec: AnySpec;
    /// Its metadata.
    fn metadata(&self) -> &ObjectMeta;
    /// Its spec. Which node it is bound to is asked of [`AnyPod::node_name`].
    fn spec(&self) -> Option<&Self::Spec>;
    /// `status.phase`.
    fn phase(&self) -> Option<&str>;
    /// `status.conditions`.
    fn conditions(&self) -> &[PodCondition];
    /// What its node has granted the pod as a whole.
    fn granted(&self) -> GrantedResources<'_>;
    /// What its node has granted one of its containers.
    fn granted_to(&self, container: &str) -> GrantedResources<'_>;
    /// The node it is bound to, if any; the empty name is none.
    fn node_name(&self) -> Option<&str>;
}

/// The spec of a pod, however it is held.
pub trait AnySpec {
    /// The type of its containers.
    type Container: AnyContainer;
    /// Those that are neither init containers nor ephemeral.
    fn containers(&self) -> &[Self::Container];
    /// Init containers and sidecars.
    fn init_containers(&self) -> &[Self::Container];
    /// Whether an ephemeral container has this name.
    fn has_ephemeral(&self, name: &str) -> bool;
    /// `nodeSelector`.
    fn node_selector(&self) -> Option<&BTreeMap<String, String>>;
    /// `affinity`.
    fn affinity(&self) -> Option<&Affinity>;
    /// `tolerations`.
    fn tolerations(&self) -> &[Toleration];
    /// `resources.requests`: what the pod as a whole asks for.
    fn requests(&self) -> Cow<'_, Amounts>;
    /// `resources.limits`: what the pod as a whole may use.
    fn limits(&self) -> Cow<'_, Amounts>;
    /// `overhead`.
    fn overhead(&self) -> Cow<'_, Amounts>;
    /// `activeDeadlineSeconds`.
    fn active_deadline_seconds(&self) -> Option<i64>;
    /// `priorityClassName`, or empty.
    fn priority_class_name(&self) -> &str;
    /// The containers that run as long as the pod does, sidecars among them.
    fn lasting(&self) -> impl Iterator<Item = &Self::Container> {
        let sidecars = self.init_containers().iter().filter(|init| init.is_sidecar());
        self.containers().iter().chain(sidecars)
    }
    /// Whether a sidecar has this name.
    fn has_sidecar(&self, name: &str) -> bool {
        self.init_containers().iter().any(|init| init.name() == name && init.is_sidecar())
    }
}

/// A container or init container of a spec, however it is held.
pub trait AnyContainer {
    /// Its name.
    fn name(&self) -> &str;
    /// `restartPolicy`.
    fn restart_policy(&self) -> Option<&str>;
    /// `restartPolicyRules`.
    fn restart_policy_rules(&self) -> &[ContainerRestartRule];
    /// `resources.requests`.
    fn requests(&self) -> Cow<'_, Amounts>;
    /// `resources.limits`.
    fn limits(&self) -> Cow<'_, Amounts>;
    /// Whether it is a sidecar, as an init container that is always restarted is (KEP-753).
    fn is_sidecar(&self) -> bool {
        self.restart_policy() == Some("Always")
    }
}

/// Resources as a status tells of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct GrantedResources<'a> {
    /// What the node has promised: `allocatedResources`.
    pub allocated: Option<&'a BTreeMap<String, Quantity>>,
    /// What the cgroup has: `resources`.
    pub in_force: Option<&'a ResourceRequirements>,
}

impl GrantedResources<'_> {
    /// Whether anything is told.
    pub const fn is_some(self) -> bool {
        self.allocated.is_some() || self.in_force.is_some()
    }
}

/// The same for both: what one has in place, the other has behind a pointer.
macro_rules! any_pod {
    ($pod:ty, $spec:ty, $reached:ident, $node_name:ident) => {
        impl AnyPod for $pod {
            type Spec = $spec;

            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn spec(&self) -> Option<&Self::Spec> {
                self.spec.$reached()
            }

            fn phase(&self) -> Option<&str> {
                self.status.as_ref()?.phase.as_deref()
            }

            fn conditions(&self) -> &[PodCondition] {
                let status = self.status.as_ref();
                status.and_then(|status| status.conditions.as_deref()).unwrap_or_default()
            }

            fn granted(&self) -> GrantedResources<'_> {
                self.status.as_ref().map_or_else(GrantedResources::default, |status| {
                    GrantedResources {
                        allocated: status.allocated_resources.$reached(),
                        in_force: status.resources.$reached(),
                    }
                })
            }

            fn granted_to(&self, container: &str) -> GrantedResources<'_> {
                let status = self.status.as_ref();
                let lists = status.map(|s| [&s.container_statuses, &s.init_container_statuses]);
                let mut all = lists.into_iter().flatten().flatten().flatten();
                let found = all.find(|status| status.name == container);
                found.map_or_else(GrantedResources::default, |status| GrantedResources {
                    allocated: status.allocated_resources.$reached(),
                    in_force: status.resources.$reached(),
                })
            }

            fn node_name(&self) -> Option<&str> {
                $node_name(self).filter(|node| !node.is_empty())
            }
        }
    };
}
any_pod!(Pod, PodSpec, as_ref, node_of_spec);
pub(crate) use any_pod;

fn node_of_spec(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

impl AnySpec for PodSpec {
    type Container = Container;

    fn containers(&self) -> &[Container] {
        &self.containers
    }

    fn init_containers(&self) -> &[Container] {
        self.init_containers.as_deref().unwrap_or_default()
    }

    fn has_ephemeral(&self, name: &str) -> bool {
        self.ephemeral_containers.iter().flatten().any(|ephemeral| ephemeral.name == name)
    }

    fn node_selector(&self) -> Option<&BTreeMap<String, String>> {
        self.node_selector.as_ref()
    }

    fn affinity(&self) -> Option<&Affinity> {
        self.affinity.as_ref()
    }

    fn tolerations(&self) -> &[Toleration] {
        self.tolerations.as_deref().unwrap_or_default()
    }

    fn requests(&self) -> Cow<'_, Amounts> {
        Cow::Owned(requests(self.resources.as_ref()))
    }

    fn limits(&self) -> Cow<'_, Amounts> {
        Cow::Owned(limits(self.resources.as_ref()))
    }

    fn overhead(&self) -> Cow<'_, Amounts> {
        Cow::Owned(Amounts::read(self.overhead.as_ref()))
    }

    fn active_deadline_seconds(&self) -> Option<i64> {
        self.active_deadline_seconds
    }

    fn priority_class_name(&self) -> &str {
        self.priority_class_name.as_deref().unwrap_or_default()
    }
}

impl AnyContainer for Container {
    fn name(&self) -> &str {
        &self.name
    }

    fn restart_policy(&self) -> Option<&str> {
        self.restart_policy.as_deref()
    }

    fn restart_policy_rules(&self) -> &[ContainerRestartRule] {
        self.restart_policy_rules.as_deref().unwrap_or_default()
    }

    fn requests(&self) -> Cow<'_, Amounts> {
        Cow::Owned(requests(self.resources.as_ref()))
    }

    fn limits(&self) -> Cow<'_, Amounts> {
        Cow::Owned(limits(self.resources.as_ref()))
    }
}

macro_rules! any_pod_behind {
    ($($pointer:ty),*) => {
        $(
            impl<P: AnyPod> AnyPod for $pointer {
                type Spec = P::Spec;

                fn metadata(&self) -> &ObjectMeta {
                    (**self).metadata()
                }

                fn spec(&self) -> Option<&Self::Spec> {
                    (**self).spec()
                }

                fn phase(&self) -> Option<&str> {
                    (**self).phase()
                }

                fn conditions(&self) -> &[PodCondition] {
                    (**self).conditions()
                }

                fn granted(&self) -> GrantedResources<'_> {
                    (**self).granted()
                }

                fn granted_to(&self, container: &str) -> GrantedResources<'_> {
                    (**self).granted_to(container)
                }

                fn node_name(&self) -> Option<&str> {
                    (**self).node_name()
                }
            }
        )*
    };
}
any_pod_behind!(&P, Arc<P>);

/// `status.phase`, or empty.
pub fn phase(pod: &impl AnyPod) -> &str {
    pod.phase().unwrap_or_default()
}

/// True for the phases of a pod that has ended for good.
pub fn is_final(phase: &str) -> bool {
    matches!(phase, "Succeeded" | "Failed")
}

/// True when it has ended for good: Succeeded or Failed.
pub fn is_finished(pod: &impl AnyPod) -> bool {
    is_final(phase(pod))
}

/// `spec.affinity`.
pub fn affinity(pod: &impl AnyPod) -> Option<&Affinity> {
    pod.spec()?.affinity()
}

/// A condition of its status.
pub fn condition<'a>(pod: &'a impl AnyPod, type_: &str) -> Option<&'a PodCondition> {
    pod.conditions().iter().find(|condition| condition.type_ == type_)
}

/// True when condition Ready is True.
pub fn is_ready(pod: &impl AnyPod) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}
/// The claim that a volume of this pod stands behind. Source: the API reference; of ephemeral ones
/// KEP-1698.
pub fn claim_name(pod: &str, volume: &Volume) -> Option<String> {
    match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(source), _) => Some(source.claim_name.clone()),
        (None, Some(_)) => Some(format!("{pod}-{}", volume.name)),
        (None, None) => None,
    }
}
