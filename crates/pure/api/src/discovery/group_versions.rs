//! The group versions that are served, here or by other servers, in the order of their priorities.

use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use rekindle_kinds::registry::{KindEntry, Registry, ResourceScope, Subresource};
use sha2::{Digest, Sha256};

use crate::api_services::listed_api_service::{ListedApiService, ServedElsewhere, local_priority};
use crate::api_services::priorities::ApiPriority;
use crate::resource_metrics;
use crate::reviews;
use crate::subresources::binding;

/// One group version with its resources: what both forms of discovery show.
pub(super) struct GroupVersion {
    pub(super) group: Cow<'static, str>,
    pub(super) version: Cow<'static, str>,
    pub(super) resources: VersionResources,
    priority: ApiPriority,
}

/// What a group version serves.
pub(super) enum VersionResources {
    /// This server serves it.
    Here(Vec<DiscoveryResource>),
    /// Another server serves it.
    Elsewhere(ServedElsewhere),
}

/// One resource, or a subresource.
pub(super) struct DiscoveryResource {
    /// `pods`, or the name of a subresource.
    pub(super) name: Cow<'static, str>,
    pub(super) kind: DiscoveryKind,
    pub(super) scope: ResourceScope,
    pub(super) singular: Cow<'static, str>,
    pub(super) verbs: &'static [&'static str],
    pub(super) short_names: Vec<Cow<'static, str>>,
    pub(super) categories: Vec<Cow<'static, str>>,
    pub(super) subresources: Vec<DiscoveryResource>,
    /// What stands for the version that its objects are stored in; none of what is never stored.
    pub(super) storage_version_hash: Option<String>,
}

/// What kind of object an answer holds.
pub(super) struct DiscoveryKind {
    pub(super) group: Cow<'static, str>,
    pub(super) version: Cow<'static, str>,
    pub(super) kind: Cow<'static, str>,
}

impl DiscoveryKind {
    const fn new(group: &'static str, version: &'static str, kind: &'static str) -> Self {
        Self {
            group: Cow::Borrowed(group),
            version: Cow::Borrowed(version),
            kind: Cow::Borrowed(kind),
        }
    }

    fn of_entry(entry: &KindEntry) -> Self {
        let (group, version, kind) = (&entry.group, &entry.version, &entry.kind);
        Self { group: group.clone(), version: version.clone(), kind: kind.clone() }
    }
}

const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

fn verbs_of(entry: &KindEntry) -> &'static [&'static str] {
    match entry.has_deletable_collections() {
        true => ALL_VERBS,
        false => &["create", "delete", "get", "list", "patch", "update", "watch"],
    }
}

/// Everything that is served, the groups and their versions by priority.
pub(super) fn group_versions(
    registry: &Registry,
    api_services: Vec<ListedApiService>,
) -> Vec<GroupVersion> {
    let mut all = served_here(registry);
    for listed in api_services {
        let is_it = |known: &&mut GroupVersion| {
            known.group == listed.group && known.version == listed.version
        };
        match (all.iter_mut().find(is_it), listed.served_elsewhere) {
            (Some(known), served_elsewhere) => {
                known.priority = listed.priority;
                if let Some(served) = served_elsewhere {
                    known.resources = VersionResources::Elsewhere(served);
                }
            }
            (None, Some(served)) => all.push(GroupVersion {
                group: listed.group.into(),
                version: listed.version.into(),
                resources: VersionResources::Elsewhere(served),
                priority: listed.priority,
            }),
            // nothing serves it
            (None, None) => {}
        }
    }
    sort(&mut all);
    all
}

fn served_here(registry: &Registry) -> Vec<GroupVersion> {
    let mut all: BTreeMap<(String, String), Vec<DiscoveryResource>> = BTreeMap::new();
    let mut add = |group: &str, version: &str, resource| {
        all.entry((group.to_owned(), version.to_owned())).or_default().push(resource);
    };
    for entry in registry.kinds() {
        add(&entry.group, &entry.version, resource(entry));
    }
    for review in &reviews::REVIEWS {
        add(review.group, reviews::VERSION, review_resource(review));
    }
    add("", "v1", bindings_resource());
    for kind in &resource_metrics::KINDS {
        add(resource_metrics::GROUP, resource_metrics::VERSION, metrics_resource(kind));
    }
    let version = |((group, version), resources): ((String, String), _)| GroupVersion {
        priority: local_priority(&group, &version),
        group: group.into(),
        version: version.into(),
        resources: VersionResources::Here(resources),
    };
    all.into_iter().map(version).collect()
}

/// The group with the highest number first. Of two, the names of their first APIServices decide.
/// Inside a group, versions are sorted by their numbers, then by maturity.
fn sort(all: &mut [GroupVersion]) {
    let mut places: BTreeMap<String, (Reverse<i32>, String)> = BTreeMap::new();
    for known in all.iter() {
        let place = (Reverse(known.priority.group), format!("{}.{}", known.version, known.group));
        let first = places.entry(known.group.to_string()).or_insert_with(|| place.clone());
        *first = place.min(first.clone());
    }
    all.sort_by(|a, b| {
        let place = |known: &GroupVersion| places.get(&*known.group);
        let by_version = || b.priority.version.cmp(&a.priority.version);
        place(a)
            .cmp(&place(b))
            .then_with(by_version)
            .then_with(|| by_maturity(&a.version, &b.version))
    });
}

/// Versions as upstream orders them: stable ones first, then beta, then alpha, each from the newest
/// to the oldest; then all other names.
fn by_maturity(a: &str, b: &str) -> Ordering {
    let rank = |version: &str| -> Option<(u32, u32, u32)> {
        let rest = version.strip_prefix('v')?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (major, rest) = rest.split_at(end);
        let major = major.parse().ok()?;
        let minor = |digits: &str| digits.parse().ok();
        match rest {
            "" => Some((2, major, 0)),
            rest if rest.starts_with("beta") => Some((1, major, minor(&rest[4..])?)),
            rest if rest.starts_with("alpha") => Some((0, major, minor(&rest[5..])?)),
            _ => None,
        }
    };
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// What is used now, which is asked of the nodes and never stored.
fn metrics_resource(metrics: &resource_metrics::MetricsKind) -> DiscoveryResource {
    DiscoveryResource {
        name: metrics.plural.into(),
        kind: DiscoveryKind::new(resource_metrics::GROUP, resource_metrics::VERSION, metrics.kind),
        scope: metrics.scope,
        singular: "".into(),
        verbs: &["get", "list"],
        short_names: Vec::new(),
        categories: Vec::new(),
        subresources: Vec::new(),
        storage_version_hash: None,
    }
}

fn resource(entry: &KindEntry) -> DiscoveryResource {
    DiscoveryResource {
        name: entry.plural.clone(),
        kind: DiscoveryKind::of_entry(entry),
        scope: entry.scope,
        singular: entry.singular.clone(),
        verbs: verbs_of(entry),
        short_names: entry.short_names.clone(),
        categories: entry.categories.clone(),
        subresources: entry.subresources.iter().map(|sub| subresource(entry, *sub)).collect(),
        storage_version_hash: Some(storage_version_hash(entry)),
    }
}

/// The start of the digest of the kind that is stored, as upstream computes it
/// (`discovery.StorageVersionHash`). Clients that migrate stored objects compare it.
fn storage_version_hash(entry: &KindEntry) -> String {
    const BYTES: usize = 8;
    let stored = entry.home.as_deref().unwrap_or(entry);
    let name = format!("{}/{}/{}", stored.group, stored.version, stored.kind);
    BASE64.encode(&Sha256::digest(name)[..BYTES])
}

/// What a proxy passes on, in the words of authorization.
const PROXY_VERBS: &[&str] = &["create", "delete", "get", "patch", "update"];

fn subresource(entry: &KindEntry, sub: Subresource) -> DiscoveryResource {
    let own = DiscoveryKind::of_entry(entry);
    let options = |kind| DiscoveryKind::new("", "v1", kind);
    let (kind, verbs): (DiscoveryKind, &[&str]) = match sub {
        Subresource::Status
        | Subresource::Resize
        | Subresource::EphemeralContainers
        | Subresource::Approval => (own, &["get", "patch", "update"]),
        Subresource::Scale => {
            (DiscoveryKind::new("autoscaling", "v1", "Scale"), &["get", "patch", "update"])
        }
        Subresource::Binding => (DiscoveryKind::new("", "v1", "Binding"), &["create"]),
        Subresource::Eviction => (DiscoveryKind::new("policy", "v1", "Eviction"), &["create"]),
        Subresource::Log => (own, &["get"]),
        Subresource::Exec => (options("PodExecOptions"), &["create", "get"]),
        Subresource::Attach => (options("PodAttachOptions"), &["create", "get"]),
        Subresource::PortForward => (options("PodPortForwardOptions"), &["create", "get"]),
        Subresource::Finalize => (own, &["update"]),
        Subresource::Token => {
            (DiscoveryKind::new("authentication.k8s.io", "v1", "TokenRequest"), &["create"])
        }
        Subresource::Proxy if entry.kind == "Pod" => (options("PodProxyOptions"), PROXY_VERBS),
        Subresource::Proxy => (options("ServiceProxyOptions"), PROXY_VERBS),
        Subresource::NodeProxy => (options("NodeProxyOptions"), &["get"]),
    };
    DiscoveryResource {
        name: sub.name().into(),
        kind,
        scope: entry.scope,
        singular: "".into(),
        verbs,
        short_names: Vec::new(),
        categories: Vec::new(),
        subresources: Vec::new(),
        storage_version_hash: None,
    }
}

fn bindings_resource() -> DiscoveryResource {
    let kind = DiscoveryKind::new("", "v1", "Binding");
    create_only((binding::COLLECTION, "binding"), kind, ResourceScope::Namespaced)
}

fn review_resource(review: &reviews::ReviewKind) -> DiscoveryResource {
    let kind = DiscoveryKind::new(review.group, reviews::VERSION, review.kind);
    create_only((review.plural, review.singular), kind, review.scope)
}

/// A kind that is answered and never stored.
fn create_only(
    (plural, singular): (&'static str, &'static str),
    kind: DiscoveryKind,
    scope: ResourceScope,
) -> DiscoveryResource {
    DiscoveryResource {
        name: plural.into(),
        kind,
        scope,
        singular: singular.into(),
        verbs: &["create"],
        short_names: Vec::new(),
        categories: Vec::new(),
        subresources: Vec::new(),
        storage_version_hash: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(group: &str, version: &str, priority: (i32, i32)) -> ListedApiService {
        ListedApiService {
            group: group.to_owned(),
            version: version.to_owned(),
            priority: ApiPriority { group: priority.0, version: priority.1 },
            served_elsewhere: Some(ServedElsewhere { discovery: None, is_stale: true }),
        }
    }

    #[test]
    fn the_hash_is_that_of_the_stored_kind() {
        let registry = rekindle_kinds::all();
        let hash_of = |api_version: &str, kind: &str| {
            let is_it = |entry: &&KindEntry| entry.api_version == api_version && entry.kind == kind;
            storage_version_hash(registry.kinds().find(is_it).unwrap())
        };
        // as a kube-apiserver 1.36 says them
        assert_eq!(hash_of("apps/v1", "DaemonSet"), "dd7pWHUlMKQ=");
        assert_eq!(hash_of("events.k8s.io/v1", "Event"), "r2yiGXH7wu8=");
        assert_eq!(hash_of("autoscaling/v1", "HorizontalPodAutoscaler"), "qwQve8ut294=");
    }

    #[test]
    fn groups_and_versions_come_by_priority_then_by_name() {
        let registry = rekindle_kinds::all();
        let all = group_versions(
            &registry,
            vec![
                listed("late.example", "v1", (10, 10)),
                listed("early.example", "v1", (17_760, 10)),
                listed("tied.example", "v1", (500, 10)),
                listed("tied.example", "v1beta1", (50, 10)),
                listed("tied.example", "v2", (50, 10)),
                listed("tied.example", "v1alpha1", (50, 20)),
                listed("also.example", "v1", (500, 10)),
                ListedApiService { served_elsewhere: None, ..listed("none", "v1", (1, 1)) },
            ],
        );
        let names: Vec<String> =
            all.iter().map(|known| format!("{}/{}", known.group, known.version)).collect();
        let first = ["apiregistration.k8s.io/v1", "/v1", "apps/v1", "early.example/v1"];
        assert_eq!(names[..4], first);
        let last = [
            "also.example/v1",
            "tied.example/v1alpha1",
            "tied.example/v2",
            "tied.example/v1",
            "tied.example/v1beta1",
            "metrics.k8s.io/v1beta1",
            "late.example/v1",
        ];
        assert_eq!(names[names.len() - 7..], last);
        let autoscaling = names.iter().position(|name| name == "autoscaling/v2");
        assert_eq!(names[autoscaling.unwrap() + 1], "autoscaling/v1");
    }
}
