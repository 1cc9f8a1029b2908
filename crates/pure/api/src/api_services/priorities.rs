//! Which groups and versions come first in discovery. kubectl takes the first of two resources that
//! have the same name.

use rekindle_kinds::api_service;
use rekindle_types::v1alpha1;

use crate::resource_metrics;

/// The place of a group version among all others: high numbers come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ApiPriority {
    /// Of the group.
    pub(crate) group: i32,
    /// Of the version in its group.
    pub(crate) version: i32,
}

/// That of groups which definitions describe, as upstream's `crdregistration`.
pub(super) const OF_DEFINITIONS: ApiPriority = ApiPriority { group: 1000, version: 100 };

/// The group of APIServices itself has none, and is always the first.
const FIRST: ApiPriority = ApiPriority { group: i32::MAX, version: 1 };

/// Those of built-in groups. Source: upstream's `apiVersionPriorities`. The last two are ours: that
/// of metrics.k8s.io is what the manifest of metrics-server says.
const BUILT_IN: [(&str, &str, i32, i32); 24] = [
    ("", "v1", 18_000, 1),
    ("apps", "v1", 17_800, 15),
    ("events.k8s.io", "v1", 17_750, 15),
    ("authentication.k8s.io", "v1", 17_700, 15),
    ("authorization.k8s.io", "v1", 17_600, 15),
    ("autoscaling", "v2", 17_500, 30),
    ("autoscaling", "v1", 17_500, 15),
    ("batch", "v1", 17_400, 15),
    ("certificates.k8s.io", "v1", 17_300, 15),
    ("networking.k8s.io", "v1", 17_200, 15),
    ("policy", "v1", 17_100, 15),
    ("rbac.authorization.k8s.io", "v1", 17_000, 15),
    ("storage.k8s.io", "v1", 16_800, 15),
    ("admissionregistration.k8s.io", "v1", 16_700, 15),
    ("apiextensions.k8s.io", "v1", 16_700, 15),
    ("scheduling.k8s.io", "v1", 16_600, 15),
    ("coordination.k8s.io", "v1", 16_500, 15),
    ("node.k8s.io", "v1", 16_300, 15),
    ("discovery.k8s.io", "v1", 16_200, 15),
    ("resource.k8s.io", "v1", 16_200, 20),
    ("flowcontrol.apiserver.k8s.io", "v1", 16_100, 21),
    ("storagemigration.k8s.io", "v1", 15_800, 15),
    (v1alpha1::GROUP, v1alpha1::VERSION, 2_000, 9),
    (resource_metrics::GROUP, resource_metrics::VERSION, 100, 100),
];

/// That of a built-in group version; none when it is no such.
pub(super) fn of_built_in(group: &str, version: &str) -> Option<ApiPriority> {
    if group == api_service::GROUP {
        return Some(FIRST);
    }
    let mut known = BUILT_IN.iter();
    let (.., group, version) = known.find(|known| (known.0, known.1) == (group, version))?;
    Some(ApiPriority { group: *group, version: *version })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_group_version_has_a_place() {
        for (group, version) in
            super::super::local_api_service::built_in_group_versions(&rekindle_kinds::all())
        {
            assert!(of_built_in(&group, &version).is_some(), "{group}/{version}");
        }
    }
}
