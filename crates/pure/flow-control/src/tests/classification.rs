//! Which schema and level a request belongs to. The cases with default objects are those of the
//! documentation "API Priority and Fairness".

use k8s_openapi::api::flowcontrol::v1::{
    FlowDistinguisherMethod, FlowSchema, FlowSchemaSpec, NonResourcePolicyRule,
    PolicyRulesWithSubjects, PriorityLevelConfigurationReference, ResourcePolicyRule, Subject,
    UserSubject,
};

use super::bench::{metadata, rejecting};
use crate::{FlowConfiguration, MaintainedObject, RequestDigest, RequestTarget, defaults};

fn resource<'a>(
    verb: &'a str,
    (group, resource, subresource): (&'a str, &'a str, &'a str),
    namespace: &'a str,
) -> RequestTarget<'a> {
    RequestTarget::Resource { verb, group, resource, subresource, namespace }
}

fn pods<'a>(verb: &'a str, namespace: &'a str) -> RequestTarget<'a> {
    resource(verb, ("", "pods", ""), namespace)
}

fn path<'a>(verb: &'a str, path: &'a str) -> RequestTarget<'a> {
    RequestTarget::Path { verb, path }
}

fn with_defaults() -> FlowConfiguration {
    let schemas = [FlowSchema::mandatory(), FlowSchema::suggested()].concat();
    let levels = [defaults::mandatory_levels(), defaults::suggested_levels()].concat();
    FlowConfiguration::new(&schemas, &levels)
}

fn class_of(
    configuration: &FlowConfiguration,
    (user, groups): (&str, &[&str]),
    target: RequestTarget<'_>,
) -> (String, String, u64) {
    let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
    let class = configuration.classify(&RequestDigest { user, groups: &groups, target });
    (class.schema().to_owned(), class.level().to_owned(), class.flow())
}

#[test]
fn default_objects_sort_requests_as_upstream_does() {
    let all = with_defaults();
    let lease = |verb, namespace| resource(verb, ("coordination.k8s.io", "leases", ""), namespace);
    let node = ("system:node:a", &["system:nodes", "system:authenticated"][..]);
    let in_system = |name| (name, &["system:serviceaccounts", "system:authenticated"][..]);
    let leader = in_system("system:serviceaccount:kube-system:operator");
    let endpoints = in_system("system:serviceaccount:kube-system:endpoint-controller");
    let account = in_system("system:serviceaccount:shop:web");
    let ann = ("ann", &["system:authenticated"][..]);
    let anonymous = ("system:anonymous", &["system:unauthenticated"][..]);
    let manager = ("system:kube-controller-manager", &["system:authenticated"][..]);
    for (who, target, schema, level) in [
        (("root", &["system:masters"][..]), pods("list", ""), "exempt", "exempt"),
        (anonymous, path("get", "/healthz"), "probes", "exempt"),
        (anonymous, path("get", "/readyz/etcd"), "global-default", "global-default"),
        (anonymous, path("post", "/healthz"), "global-default", "global-default"),
        (manager, lease("update", "kube-system"), "system-leader-election", "leader-election"),
        (leader, lease("get", "shop"), "system-leader-election", "leader-election"),
        (leader, lease("list", "shop"), "kube-system-service-accounts", "workload-high"),
        (
            endpoints,
            resource("update", ("", "endpoints", ""), "shop"),
            "endpoint-controller",
            "workload-high",
        ),
        (node, resource("update", ("", "nodes", "status"), ""), "system-node-high", "node-high"),
        (node, resource("get", ("", "nodes", "proxy"), ""), "system-nodes", "system"),
        (node, lease("update", "kube-node-lease"), "system-node-high", "node-high"),
        (node, pods("list", ""), "system-nodes", "system"),
        (manager, pods("list", ""), "kube-controller-manager", "workload-high"),
        (account, pods("list", "shop"), "service-accounts", "workload-low"),
        (ann, pods("list", "shop"), "global-default", "global-default"),
        (ann, path("get", "/version"), "global-default", "global-default"),
    ] {
        let (found, of, _) = class_of(&all, who, target);
        assert_eq!((found.as_str(), of.as_str()), (schema, level), "{who:?} {target:?}");
    }
}

#[test]
fn a_server_without_objects_has_the_mandatory_ones() {
    let none = FlowConfiguration::new(&[], &[]);
    for (groups, schema) in [("system:masters", "exempt"), ("system:authenticated", "catch-all")] {
        assert_eq!(class_of(&none, ("ann", &[groups]), pods("get", "a")).0, schema);
    }
    assert_eq!(class_of(&none, ("odd", &[]), pods("get", "a")).0, "catch-all", "without a group");
}

#[test]
fn mandatory_objects_mean_what_upstream_fixes_whatever_is_stored() {
    let mut schemas = defaults::mandatory_schemas();
    for schema in &mut schemas {
        schema.spec.priority_level_configuration.name = "gone".to_owned();
        schema.spec.rules = None;
    }
    let levels = [rejecting("exempt", 1), rejecting("catch-all", 0)];
    let all = FlowConfiguration::new(&schemas, &levels);
    assert_eq!(class_of(&all, ("a", &["system:masters"]), pods("get", "a")).1, "exempt");
    assert_eq!(class_of(&all, ("a", &["system:authenticated"]), pods("get", "a")).1, "catch-all");
}

fn schema(name: &str, precedence: i32, rule: PolicyRulesWithSubjects) -> FlowSchema {
    FlowSchema {
        metadata: metadata(name),
        spec: FlowSchemaSpec {
            priority_level_configuration: PriorityLevelConfigurationReference {
                name: "level".to_owned(),
            },
            matching_precedence: Some(precedence),
            distinguisher_method: None,
            rules: Some(vec![rule]),
        },
        status: None,
    }
}

fn ann() -> Subject {
    Subject {
        kind: "User".to_owned(),
        user: Some(UserSubject { name: "ann".to_owned() }),
        ..Subject::default()
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Everything in the namespaces, and at cluster scope if `cluster_scope` says so.
fn rule(resources: &[&str], namespaces: &[&str], cluster_scope: bool) -> PolicyRulesWithSubjects {
    PolicyRulesWithSubjects {
        subjects: vec![ann()],
        resource_rules: Some(vec![ResourcePolicyRule {
            verbs: words(&["*"]),
            api_groups: words(&["*"]),
            resources: words(resources),
            namespaces: Some(words(namespaces)),
            cluster_scope: Some(cluster_scope),
        }]),
        non_resource_rules: None,
    }
}

#[test]
fn rules_cover_what_they_name() {
    let paths = PolicyRulesWithSubjects {
        subjects: vec![ann()],
        resource_rules: None,
        non_resource_rules: Some(vec![NonResourcePolicyRule {
            verbs: words(&["get"]),
            non_resource_urls: words(&["/metrics", "/openapi/*"]),
        }]),
    };
    let pods_a = rule(&["pods"], &["a"], false);
    for (rule, target, matches) in [
        (&pods_a, pods("get", "a"), true),
        (&pods_a, pods("get", "b"), false),
        (&pods_a, pods("list", ""), false),
        (&pods_a, resource("get", ("", "pods", "log"), "a"), false),
        (&rule(&["pods/log"], &["*"], false), resource("get", ("", "pods", "log"), "a"), true),
        (&rule(&["*"], &["*"], false), resource("get", ("", "pods", "log"), "a"), true),
        (&rule(&["nodes"], &[], true), resource("get", ("", "nodes", ""), ""), true),
        (&rule(&["nodes"], &["*"], false), resource("get", ("", "nodes", ""), ""), false),
        (&rule(&["*"], &["*"], true), path("get", "/metrics"), false),
        (&paths, path("get", "/metrics"), true),
        (&paths, path("get", "/metrics/slis"), false),
        (&paths, path("get", "/openapi/v3"), true),
        (&paths, path("put", "/metrics"), false),
    ] {
        let levels = [rejecting("level", 1)];
        let all = FlowConfiguration::new(&[schema("mine", 100, rule.clone())], &levels);
        let found = class_of(&all, ("ann", &["system:authenticated"]), target).0;
        assert_eq!(found == "mine", matches, "{rule:?} {target:?}");
    }
}

#[test]
fn the_lowest_precedence_wins_and_of_equals_the_first_name() {
    let of = |name, precedence| schema(name, precedence, rule(&["*"], &["*"], true));
    let levels = [rejecting("level", 1)];
    for (schemas, first) in [([of("a", 20), of("b", 10)], "b"), ([of("b", 10), of("a", 10)], "a")] {
        let all = FlowConfiguration::new(&schemas, &levels);
        assert_eq!(class_of(&all, ("ann", &["x"]), pods("get", "a")).0, first);
    }
}

#[test]
fn a_schema_without_its_level_covers_nothing() {
    let all = FlowConfiguration::new(&[schema("mine", 10, rule(&["*"], &["*"], true))], &[]);
    assert_eq!(class_of(&all, ("ann", &["x"]), pods("get", "a")).0, "catch-all");
}

#[test]
fn flows_are_told_apart_by_user_or_namespace() {
    let flow = |method: Option<&str>, user: &str, namespace: &str| {
        let everyone = Subject { user: Some(UserSubject { name: "*".to_owned() }), ..ann() };
        let rule =
            PolicyRulesWithSubjects { subjects: vec![everyone], ..rule(&["*"], &["*"], true) };
        let mut schema = schema("mine", 10, rule);
        schema.spec.distinguisher_method =
            method.map(|type_| FlowDistinguisherMethod { type_: type_.to_owned() });
        let all = FlowConfiguration::new(&[schema], &[rejecting("level", 1)]);
        class_of(&all, (user, &[]), pods("get", namespace)).2
    };
    assert_eq!(flow(None, "ann", "a"), flow(None, "bob", "b"));
    assert_eq!(flow(Some("ByUser"), "ann", "a"), flow(Some("ByUser"), "ann", "b"));
    assert_ne!(flow(Some("ByUser"), "ann", "a"), flow(Some("ByUser"), "bob", "a"));
    assert_eq!(flow(Some("ByNamespace"), "ann", "a"), flow(Some("ByNamespace"), "bob", "a"));
    assert_ne!(flow(Some("ByNamespace"), "ann", "a"), flow(Some("ByNamespace"), "ann", "b"));
}
