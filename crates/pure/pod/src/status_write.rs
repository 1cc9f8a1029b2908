//! How a status is written to the API: a merge patch of everything that the node owns in it.
//!
//! The patch is conditional on the resourceVersion that was seen last, because it carries the whole
//! list of conditions: one that another writer owns (DisruptionTarget, a readiness gate) is taken
//! over from the object as seen.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use serde::Serialize;

use crate::conditions::is_of_node;

/// What a status is written on: the object as it was last seen in the API.
#[derive(Clone, Debug, Default)]
pub struct StatusWrite {
    /// Its version; without one the write is not conditional.
    pub resource_version: Option<String>,
    /// The conditions that another writer owns.
    foreign: Vec<PodCondition>,
}

/// The merge patch for the subresource `status` of a pod. It is written as it stands here: a tree
/// of it in between would cost more than all that the core does for a restart.
#[derive(Clone, Debug, Serialize)]
pub struct StatusPatch<'a> {
    metadata: Metadata<'a>,
    status: StatusFields<'a>,
}

#[derive(Clone, Debug, Serialize)]
struct Metadata<'a> {
    uid: &'a str,
    #[serde(rename = "resourceVersion", skip_serializing_if = "Option::is_none")]
    resource_version: Option<&'a str>,
}

#[derive(Clone, Debug, Serialize)]
struct StatusFields<'a> {
    #[serde(flatten)]
    given: Cow<'a, PodStatus>,
    /// StatusFields that the node owns and the core leaves out: they are removed from the API.
    #[serde(flatten)]
    removed: BTreeMap<&'static str, ()>,
}

impl StatusWrite {
    /// On this object.
    pub fn on(pod: &Pod) -> Self {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let foreign = conditions.filter(|seen| !is_of_node(seen));
        Self {
            resource_version: pod.metadata.resource_version.clone(),
            foreign: foreign.cloned().collect(),
        }
    }

    /// The object was seen in the API. True when that is news: it is neither the version that is
    /// known nor surely an older one (resource versions are comparable as numbers, KEP-5504).
    pub fn see(&mut self, pod: &Pod) -> bool {
        let (version, known) = (&pod.metadata.resource_version, &self.resource_version);
        if version == known || is_older(version.as_deref(), known.as_deref()) {
            return false;
        }
        *self = Self::on(pod);
        true
    }

    /// The patch of the pod with this UID.
    pub fn patch<'a>(&'a self, uid: &'a str, status: &'a PodStatus) -> StatusPatch<'a> {
        let resource_version = self.resource_version.as_deref();
        let removed = removed(status).collect();
        let given = self.with_foreign(status);
        StatusPatch {
            metadata: Metadata { uid, resource_version },
            status: StatusFields { given, removed },
        }
    }

    /// The status with the conditions that another writer owns, and with a list of conditions
    /// whatever is in it.
    fn with_foreign<'a>(&self, status: &'a PodStatus) -> Cow<'a, PodStatus> {
        let is_written = |seen: &PodCondition| {
            status.conditions.iter().flatten().any(|own| own.type_ == seen.type_)
        };
        let mut foreign = self.foreign.iter().filter(|seen| !is_written(seen)).peekable();
        if status.conditions.is_some() && foreign.peek().is_none() {
            return Cow::Borrowed(status);
        }
        let mut given = status.clone();
        given.conditions.get_or_insert_default().extend(foreign.cloned());
        Cow::Owned(given)
    }
}

/// The fields of a status that the node owns and that are not in this one. Conditions always are.
fn removed(status: &PodStatus) -> impl Iterator<Item = (&'static str, ())> {
    let owned = [
        ("containerStatuses", status.container_statuses.is_some()),
        ("hostIP", status.host_ip.is_some()),
        ("hostIPs", status.host_ips.is_some()),
        ("initContainerStatuses", status.init_container_statuses.is_some()),
        ("message", status.message.is_some()),
        ("observedGeneration", status.observed_generation.is_some()),
        ("phase", status.phase.is_some()),
        ("podIP", status.pod_ip.is_some()),
        ("podIPs", status.pod_ips.is_some()),
        ("qosClass", status.qos_class.is_some()),
        ("reason", status.reason.is_some()),
        ("startTime", status.start_time.is_some()),
    ];
    owned.into_iter().filter(|(_, is_given)| !is_given).map(|(name, _)| (name, ()))
}

/// Whether version `a` was surely before `b`.
fn is_older(a: Option<&str>, b: Option<&str>) -> bool {
    let number = |version: Option<&str>| version.and_then(|version| version.parse::<u64>().ok());
    number(a).zip(number(b)).is_some_and(|(a, b)| a < b)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn condition(kind: &str, status: &str) -> PodCondition {
        let (type_, status) = (kind.to_owned(), status.to_owned());
        PodCondition { type_, status, ..PodCondition::default() }
    }

    fn seen(version: &str, conditions: &[PodCondition]) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.resource_version = Some(version.to_owned());
        pod.status.get_or_insert_default().conditions = Some(conditions.to_vec());
        pod
    }

    fn patch(write: &StatusWrite, status: &PodStatus) -> Value {
        serde_json::to_value(write.patch("u1", status)).unwrap()
    }

    #[test]
    fn what_the_node_owns_and_leaves_out_is_removed() {
        let status = PodStatus { phase: Some("Running".to_owned()), ..PodStatus::default() };
        let patched = patch(&StatusWrite::default(), &status);
        let expected = json!({"metadata": {"uid": "u1"}, "status": {
            "phase": "Running", "conditions": [],
            "containerStatuses": null, "hostIP": null, "hostIPs": null, "initContainerStatuses": null, "message": null,
            "observedGeneration": null, "podIP": null, "podIPs": null, "qosClass": null, "reason": null, "startTime": null,
        }});
        assert_eq!(patched, expected);
    }

    #[test]
    fn conditions_of_others_stay_and_the_node_s_own_are_as_it_says() {
        let conditions = [condition("Ready", "True"), condition("DisruptionTarget", "True")];
        let write = StatusWrite::on(&seen("7", &conditions));
        let of = |conditions: Option<Vec<PodCondition>>| {
            let status = PodStatus { conditions, ..PodStatus::default() };
            patch(&write, &status)
        };
        let ready = || json!({"type": "Ready", "status": "False"});
        let target = |status: &str| json!({"type": "DisruptionTarget", "status": status});
        let patched = of(Some(vec![condition("Ready", "False")]));
        assert_eq!(patched["metadata"], json!({"uid": "u1", "resourceVersion": "7"}));
        assert_eq!(patched["status"]["conditions"], json!([ready(), target("True")]));
        assert_eq!(of(None)["status"]["conditions"], json!([target("True")]));
        let own = vec![condition("DisruptionTarget", "False")];
        assert_eq!(of(Some(own))["status"]["conditions"], json!([target("False")]));
    }

    #[test]
    fn only_a_newer_version_is_news() {
        let mut write = StatusWrite::on(&seen("9", &[]));
        for (version, is_news) in [("9", false), ("8", false), ("10", true), ("9", false)] {
            assert_eq!(write.see(&seen(version, &[])), is_news, "{version}");
        }
    }
}
