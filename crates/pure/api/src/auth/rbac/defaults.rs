//! The roles and bindings that every cluster has and its users expect, as upstream's
//! `bootstrappolicy` for what this API serves, with what our own kinds need. Those of components
//! that do not exist here (the scheduler, kube-proxy, controllers) are left out: our own are in
//! `system:masters`, except agents of further nodes, which are in `system:nodes`.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::{
    AggregationRule, ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use rekindle_kinds::certificate_signing_request::GROUP as CERTIFICATES;
use rekindle_kinds::identity::service_account::ACCOUNTS;
use rekindle_kinds::identity::{AUTHENTICATED, MASTERS, NODES, UNAUTHENTICATED};
use rekindle_kinds::rbac::GROUP;

/// An object with this annotation at `true` gets back at each start what it has lost.
pub const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
/// The label of all that is made here.
const BOOTSTRAPPING: (&str, &str) = ("kubernetes.io/bootstrapping", "rbac-defaults");
/// What a label of an aggregated role begins with: `…/aggregate-to-view`.
const AGGREGATE_TO: &str = "rbac.authorization.k8s.io/aggregate-to-";

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
const READ_WRITE: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const GET: &[&str] = &["get"];
const CREATE: &[&str] = &["create"];

/// The cluster roles.
pub fn cluster_roles() -> Vec<ClusterRole> {
    vec![
        role("cluster-admin", vec![rule(&["*"], "*", &["*"]), paths(&["*"], &["*"])]),
        role("system:discovery", vec![paths(GET, DISCOVERY)]),
        role("system:public-info-viewer", vec![paths(GET, PUBLIC)]),
        role("system:basic-user", basic_user()),
        role("system:monitoring", vec![paths(GET, MONITORING)]),
        role("system:node", node()),
        role("system:service-account-issuer-discovery", vec![paths(GET, ISSUER)]),
        role("system:cluster-trust-bundle-discovery", vec![trust_bundles()]),
        role("system:auth-delegator", auth_delegator()),
        role("system:node-bootstrapper", node_bootstrapper()),
        role(
            "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
            vec![rule(CREATE, CERTIFICATES, &["certificatesigningrequests/nodeclient"])],
        ),
        role(
            "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
            vec![rule(CREATE, CERTIFICATES, &["certificatesigningrequests/selfnodeclient"])],
        ),
        approver("legacy-unknown"),
        approver("kubelet-serving"),
        approver("kube-apiserver-client"),
        approver("kube-apiserver-client-kubelet"),
        aggregated("admin", &["admin"], None),
        aggregated("edit", &["edit"], Some("admin")),
        aggregated("view", &["view"], Some("edit")),
        part("admin", admin()),
        part("edit", edit()),
        part("view", [view(), view_workloads()].concat()),
    ]
}

/// The roles of namespaces.
pub fn roles() -> Vec<Role> {
    let mut right = rule(READ, "", &["configmaps"]);
    right.resource_names = Some(vec!["extension-apiserver-authentication".to_owned()]);
    let mut metadata = meta("extension-apiserver-authentication-reader");
    metadata.namespace = Some("kube-system".to_owned());
    vec![Role { metadata, rules: Some(vec![right]) }]
}

/// The cluster bindings.
pub fn cluster_role_bindings() -> Vec<ClusterRoleBinding> {
    vec![
        binding("cluster-admin", &[MASTERS]),
        binding("system:discovery", &[AUTHENTICATED]),
        binding("system:public-info-viewer", &[AUTHENTICATED, UNAUTHENTICATED]),
        binding("system:basic-user", &[AUTHENTICATED]),
        binding("system:monitoring", &["system:monitoring"]),
        binding("system:node", &[NODES]),
        binding("system:service-account-issuer-discovery", &[ACCOUNTS]),
        binding("system:cluster-trust-bundle-discovery", &[ACCOUNTS]),
    ]
}

/// The group of claims of devices.
const DEVICES: &str = "resource.k8s.io";
const DISCOVERY: &[&str] = &[
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
];
const PUBLIC: &[&str] = &["/healthz", "/livez", "/readyz", "/version", "/version/"];
const ISSUER: &[&str] = &[
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/",
    "/openid/v1/jwks",
    "/openid/v1/jwks/",
];
const MONITORING: &[&str] = &[
    "/healthz",
    "/healthz/*",
    "/livez",
    "/livez/*",
    "/metrics",
    "/metrics/*",
    "/readyz",
    "/readyz/*",
];

fn basic_user() -> Vec<PolicyRule> {
    vec![
        rule(
            CREATE,
            "authorization.k8s.io",
            &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        ),
        rule(CREATE, "authentication.k8s.io", &["selfsubjectreviews"]),
    ]
}

/// What a node agent does. `crate::node_rights` narrows it to what is the node's own.
fn node() -> Vec<PolicyRule> {
    const PATCH: &[&str] = &["patch", "update"];
    vec![
        rule(&["create", "get", "list", "patch", "update", "watch"], "", &["nodes"]),
        rule(PATCH, "", &["nodes/status", "pods/status"]),
        rule(&["create", "delete", "get", "list", "watch"], "", &["pods"]),
        rule(READ, "", &["configmaps", "secrets", "serviceaccounts"]),
        rule(CREATE, "", &["serviceaccounts/token"]),
        rule(&["create", "patch", "update"], "", &["events"]),
        rule(READ, "", &["persistentvolumeclaims", "services"]),
        rule(READ_WRITE, "", &["persistentvolumes"]),
        rule(READ, "storage.k8s.io", &["storageclasses"]),
        trust_bundles(),
        rule(&["create", "get", "patch", "update"], "coordination.k8s.io", &["leases"]),
        rule(READ, "rekindle.dev", &["podrestarts"]),
        rule(PATCH, "rekindle.dev", &["podrestarts/status"]),
    ]
}

/// Which authorities there are is no secret.
fn trust_bundles() -> PolicyRule {
    rule(READ, CERTIFICATES, &["clustertrustbundles"])
}

/// What asks for the first certificate of a node.
fn node_bootstrapper() -> Vec<PolicyRule> {
    vec![rule(&["create", "get", "list", "watch"], CERTIFICATES, &["certificatesigningrequests"])]
}

/// May approve requests to one of the cluster's own signers.
fn approver(signer: &str) -> ClusterRole {
    let mut right = rule(&["approve"], CERTIFICATES, &["signers"]);
    right.resource_names = Some(vec![format!("kubernetes.io/{signer}")]);
    role(&format!("system:certificates.k8s.io:{signer}-approver"), vec![right])
}

fn auth_delegator() -> Vec<PolicyRule> {
    vec![
        rule(CREATE, "authentication.k8s.io", &["tokenreviews"]),
        rule(CREATE, "authorization.k8s.io", &["subjectaccessreviews"]),
    ]
}

fn admin() -> Vec<PolicyRule> {
    vec![
        rule(CREATE, "authorization.k8s.io", &["localsubjectaccessreviews"]),
        rule(READ_WRITE, GROUP, &["roles", "rolebindings"]),
    ]
}

fn edit() -> Vec<PolicyRule> {
    let streams = ["pods/attach", "pods/exec", "pods/portforward", "pods/proxy"];
    vec![
        rule(READ, "", &[&streams[..], &["secrets", "services/proxy"]].concat()),
        rule(&["impersonate"], "", &["serviceaccounts"]),
        rule(WRITE, "", &[&["pods"], &streams[..]].concat()),
        rule(CREATE, "", &["pods/eviction"]),
        rule(
            WRITE,
            "",
            &[
                "configmaps",
                "events",
                "persistentvolumeclaims",
                "replicationcontrollers",
                "replicationcontrollers/scale",
                "secrets",
                "serviceaccounts",
                "services",
                "services/proxy",
            ],
        ),
        rule(CREATE, "", &["serviceaccounts/token"]),
        rule(
            WRITE,
            "apps",
            &[
                "daemonsets",
                "deployments",
                "deployments/rollback",
                "deployments/scale",
                "replicasets",
                "replicasets/scale",
                "statefulsets",
                "statefulsets/scale",
            ],
        ),
        rule(WRITE, "autoscaling", &["horizontalpodautoscalers"]),
        rule(WRITE, "batch", &["cronjobs", "jobs"]),
        rule(WRITE, "policy", &["poddisruptionbudgets"]),
        rule(WRITE, "networking.k8s.io", &["ingresses", "networkpolicies"]),
        rule(READ_WRITE, "coordination.k8s.io", &["leases"]),
        rule(WRITE, DEVICES, &["resourceclaims", "resourceclaimtemplates"]),
        rule(WRITE, "rekindle.dev", &["podrestarts", "restartladders"]),
    ]
}

fn view() -> Vec<PolicyRule> {
    vec![
        rule(
            READ,
            "",
            &[
                "configmaps",
                "endpoints",
                "persistentvolumeclaims",
                "persistentvolumeclaims/status",
                "pods",
                "replicationcontrollers",
                "replicationcontrollers/scale",
                "serviceaccounts",
                "services",
                "services/status",
            ],
        ),
        rule(
            READ,
            "",
            &[
                "bindings",
                "events",
                "limitranges",
                "namespaces/status",
                "pods/log",
                "pods/status",
                "replicationcontrollers/status",
                "resourcequotas",
                "resourcequotas/status",
            ],
        ),
        rule(READ, "", &["namespaces"]),
    ]
}

/// What belongs to workloads.
fn view_workloads() -> Vec<PolicyRule> {
    vec![
        rule(READ, "discovery.k8s.io", &["endpointslices"]),
        rule(
            READ,
            "apps",
            &[
                "controllerrevisions",
                "daemonsets",
                "daemonsets/status",
                "deployments",
                "deployments/scale",
                "deployments/status",
                "replicasets",
                "replicasets/scale",
                "replicasets/status",
                "statefulsets",
                "statefulsets/scale",
                "statefulsets/status",
            ],
        ),
        rule(READ, "autoscaling", &["horizontalpodautoscalers", "horizontalpodautoscalers/status"]),
        rule(READ, "batch", &["cronjobs", "cronjobs/status", "jobs", "jobs/status"]),
        rule(READ, "policy", &["poddisruptionbudgets", "poddisruptionbudgets/status"]),
        rule(READ, "networking.k8s.io", &["ingresses", "ingresses/status", "networkpolicies"]),
        rule(READ, DEVICES, &["resourceclaims", "resourceclaims/status", "resourceclaimtemplates"]),
        rule(
            READ,
            "rekindle.dev",
            &[
                "podrestarts",
                "podrestarts/status",
                "restartladders",
                "restartladders/status",
                "restartledgers",
                "restartledgers/status",
            ],
        ),
    ]
}

fn list(entries: &[&str]) -> Vec<String> {
    entries.iter().map(|entry| (*entry).to_owned()).collect()
}

fn rule(verbs: &[&str], group: &str, resources: &[&str]) -> PolicyRule {
    PolicyRule {
        verbs: list(verbs),
        api_groups: Some(list(&[group])),
        resources: Some(list(resources)),
        ..PolicyRule::default()
    }
}

fn paths(verbs: &[&str], paths: &[&str]) -> PolicyRule {
    PolicyRule { verbs: list(verbs), non_resource_urls: Some(list(paths)), ..PolicyRule::default() }
}

fn meta(name: &str) -> ObjectMeta {
    let (label, value) = BOOTSTRAPPING;
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some([(label.to_owned(), value.to_owned())].into()),
        annotations: Some([(AUTO_UPDATE.to_owned(), "true".to_owned())].into()),
        ..ObjectMeta::default()
    }
}

fn role(name: &str, rules: Vec<PolicyRule>) -> ClusterRole {
    ClusterRole { metadata: meta(name), rules: Some(rules), aggregation_rule: None }
}

/// A role that is made of all those which carry a label.
fn aggregated(name: &str, of: &[&str], to: Option<&str>) -> ClusterRole {
    let selectors = of.iter().map(|of| LabelSelector {
        match_labels: Some(BTreeMap::from([(format!("{AGGREGATE_TO}{of}"), "true".to_owned())])),
        ..LabelSelector::default()
    });
    let mut role = role(name, Vec::new());
    role.aggregation_rule =
        Some(AggregationRule { cluster_role_selectors: Some(selectors.collect()) });
    role.metadata.labels.get_or_insert_default().extend(to.map(aggregation_label));
    role
}

/// What an aggregated role is made of: `system:aggregate-to-view`.
fn part(of: &str, rules: Vec<PolicyRule>) -> ClusterRole {
    let mut role = role(&format!("system:aggregate-to-{of}"), rules);
    role.metadata.labels.get_or_insert_default().extend([aggregation_label(of)]);
    role
}

fn aggregation_label(to: &str) -> (String, String) {
    (format!("{AGGREGATE_TO}{to}"), "true".to_owned())
}

fn binding(role: &str, groups: &[&str]) -> ClusterRoleBinding {
    let subjects = groups.iter().map(|group| Subject {
        api_group: Some(GROUP.to_owned()),
        kind: "Group".to_owned(),
        name: (*group).to_owned(),
        namespace: None,
    });
    ClusterRoleBinding {
        metadata: meta(role),
        role_ref: RoleRef {
            api_group: Some(GROUP.to_owned()),
            kind: "ClusterRole".to_owned(),
            name: role.to_owned(),
        },
        subjects: Some(subjects.collect()),
    }
}
