//! What a Pod says of itself, for all who ask.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodCondition, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::held;

/// A pod, however it is held: as the API has it, or as [`held::Pod`](crate::held::Pod).
pub trait AnyPod {
    /// Its metadata.
    fn metadata(&self) -> &ObjectMeta;
    /// Its spec. Which node it is bound to is asked of [`AnyPod::node_name`].
    fn spec(&self) -> Option<&PodSpec>;
    /// `status.phase`.
    fn phase(&self) -> Option<&str>;
    /// `status.conditions`.
    fn conditions(&self) -> &[PodCondition];
    /// `status.qosClass`.
    fn qos_class(&self) -> Option<&str>;
    /// What its node has granted the pod as a whole.
    fn granted(&self) -> Granted<'_>;
    /// What its node has granted one of its containers.
    fn granted_to(&self, container: &str) -> Granted<'_>;
    /// The node it is bound to, if any; the empty name is none.
    fn node_name(&self) -> Option<&str>;
}

/// Resources as a status tells of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Granted<'a> {
    /// What the node has promised: `allocatedResources`.
    pub allocated: Option<&'a BTreeMap<String, Quantity>>,
    /// What the cgroup has: `resources`.
    pub in_force: Option<&'a ResourceRequirements>,
}

impl Granted<'_> {
    /// Whether anything is told.
    pub const fn is_some(self) -> bool {
        self.allocated.is_some() || self.in_force.is_some()
    }
}

/// The same for both: what one has in place, the other has behind a pointer.
macro_rules! any_pod {
    ($pod:ty, $reached:ident, $node_name:ident) => {
        impl AnyPod for $pod {
            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn spec(&self) -> Option<&PodSpec> {
                self.spec.$reached()
            }

            fn phase(&self) -> Option<&str> {
                self.status.as_ref()?.phase.as_deref()
            }

            fn conditions(&self) -> &[PodCondition] {
                let status = self.status.as_ref();
                status.and_then(|status| status.conditions.as_deref()).unwrap_or_default()
            }

            fn qos_class(&self) -> Option<&str> {
                self.status.as_ref()?.qos_class.as_deref()
            }

            fn granted(&self) -> Granted<'_> {
                self.status.as_ref().map_or_else(Granted::default, |status| Granted {
                    allocated: status.allocated_resources.$reached(),
                    in_force: status.resources.$reached(),
                })
            }

            fn granted_to(&self, container: &str) -> Granted<'_> {
                let status = self.status.as_ref();
                let lists = status.map(|s| [&s.container_statuses, &s.init_container_statuses]);
                let mut all = lists.into_iter().flatten().flatten().flatten();
                let found = all.find(|status| status.name == container);
                found.map_or_else(Granted::default, |status| Granted {
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
any_pod!(Pod, as_ref, node_of_spec);
any_pod!(held::Pod, as_deref, node_beside_spec);

fn node_of_spec(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn node_beside_spec(pod: &held::Pod) -> Option<&str> {
    pod.node_name.as_deref()
}

macro_rules! any_pod_behind {
    ($($pointer:ty),*) => {
        $(
            impl<P: AnyPod> AnyPod for $pointer {
                fn metadata(&self) -> &ObjectMeta {
                    (**self).metadata()
                }

                fn spec(&self) -> Option<&PodSpec> {
                    (**self).spec()
                }

                fn phase(&self) -> Option<&str> {
                    (**self).phase()
                }

                fn conditions(&self) -> &[PodCondition] {
                    (**self).conditions()
                }

                fn qos_class(&self) -> Option<&str> {
                    (**self).qos_class()
                }

                fn granted(&self) -> Granted<'_> {
                    (**self).granted()
                }

                fn granted_to(&self, container: &str) -> Granted<'_> {
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

/// A condition of its status.
pub fn condition<'a>(pod: &'a impl AnyPod, type_: &str) -> Option<&'a PodCondition> {
    pod.conditions().iter().find(|condition| condition.type_ == type_)
}

/// True when condition Ready is True.
pub fn is_ready(pod: &impl AnyPod) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}
