//! The objects that every server has: the mandatory ones, and those that upstream suggests.
//!
//! Source: the documentation "API Priority and Fairness", defaults; the bootstrap objects of
//! kube-apiserver.

use std::collections::BTreeMap;

use k8s_openapi::api::flowcontrol::v1::{
    ExemptPriorityLevelConfiguration, FlowDistinguisherMethod, FlowSchema, FlowSchemaSpec,
    GroupSubject, LimitResponse, LimitedPriorityLevelConfiguration, NonResourcePolicyRule,
    PolicyRulesWithSubjects, PriorityLevelConfiguration, PriorityLevelConfigurationReference,
    PriorityLevelConfigurationSpec, QueuingConfiguration, ResourcePolicyRule,
    ServiceAccountSubject, Subject, UserSubject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::upkeep::{AUTO_UPDATE, MaintainedObject};

/// The level and the schema of what is never limited.
pub const EXEMPT: &str = "exempt";
/// The level and the schema of what no other schema covers.
pub const CATCH_ALL: &str = "catch-all";

const ALL: &str = "*";
const KUBE_SYSTEM: &str = "kube-system";
const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
const SCHEDULER: &str = "system:kube-scheduler";
const EVERYONE: [&str; 2] = ["system:unauthenticated", "system:authenticated"];
const BY_USER: Option<&str> = Some("ByUser");
const BY_NAMESPACE: Option<&str> = Some("ByNamespace");

/// The levels that a server cannot do without.
pub fn mandatory_levels() -> Vec<PriorityLevelConfiguration> {
    let exempt = PriorityLevelConfigurationSpec {
        type_: "Exempt".to_owned(),
        exempt: Some(ExemptPriorityLevelConfiguration {
            nominal_concurrency_shares: Some(0),
            lendable_percent: Some(0),
        }),
        limited: None,
    };
    let reject = LimitResponse { type_: "Reject".to_owned(), queuing: None };
    vec![level(EXEMPT, exempt), level(CATCH_ALL, limited(5, 0, reject))]
}

/// The schemas that a server cannot do without.
pub fn mandatory_schemas() -> Vec<FlowSchema> {
    vec![
        schema((EXEMPT, EXEMPT, 1, None), everything(groups(&["system:masters"]))),
        schema((CATCH_ALL, CATCH_ALL, 10_000, BY_USER), everything(groups(&EVERYONE))),
    ]
}

/// The levels that upstream suggests.
pub fn suggested_levels() -> Vec<PriorityLevelConfiguration> {
    [
        ("system", 30, 33, (64, 6)),
        ("node-high", 40, 25, (64, 6)),
        ("leader-election", 10, 0, (16, 4)),
        ("workload-high", 40, 50, (128, 6)),
        ("workload-low", 100, 90, (128, 6)),
        ("global-default", 20, 50, (128, 6)),
    ]
    .into_iter()
    .map(|(name, shares, lendable, (queues, hand_size))| {
        let queuing = QueuingConfiguration {
            queues: Some(queues),
            hand_size: Some(hand_size),
            queue_length_limit: Some(50),
        };
        let queue = LimitResponse { type_: "Queue".to_owned(), queuing: Some(queuing) };
        level(name, limited(shares, lendable, queue))
    })
    .collect()
}

/// The schemas that upstream suggests.
pub fn suggested_schemas() -> Vec<FlowSchema> {
    let kube_system = || vec![service_account(ALL)];
    let leases = || resources(&["get", "create", "update"], "coordination.k8s.io", &["leases"]);
    let leaders = [vec![user(CONTROLLER_MANAGER), user(SCHEDULER)], kube_system()].concat();
    let endpoints = vec![
        user(CONTROLLER_MANAGER),
        service_account("endpoint-controller"),
        service_account("endpointslicemirroring-controller"),
    ];
    let nodes = ResourcePolicyRule {
        cluster_scope: Some(true),
        ..resources(&[ALL], "", &["nodes", "nodes/status"])
    };
    let node_leases = resources(&[ALL], "coordination.k8s.io", &["leases"]);
    let (high, leader) = ("workload-high", "leader-election");
    vec![
        schema(("probes", EXEMPT, 2, None), probes()),
        schema(("system-leader-election", leader, 100, BY_USER), of(leaders, vec![leases()])),
        schema(
            ("endpoint-controller", high, 150, BY_USER),
            of(endpoints, vec![resources(&["get", "create", "update"], "", &["endpoints"])]),
        ),
        schema(
            ("workload-leader-election", leader, 200, BY_USER),
            of(kube_system(), vec![leases()]),
        ),
        schema(
            ("system-node-high", "node-high", 400, BY_USER),
            of(groups(&["system:nodes"]), vec![nodes, node_leases]),
        ),
        schema(("system-nodes", "system", 500, BY_USER), everything(groups(&["system:nodes"]))),
        schema(
            ("kube-controller-manager", high, 800, BY_NAMESPACE),
            everything(vec![user(CONTROLLER_MANAGER)]),
        ),
        schema(("kube-scheduler", high, 800, BY_NAMESPACE), everything(vec![user(SCHEDULER)])),
        schema(
            ("kube-system-service-accounts", high, 900, BY_NAMESPACE),
            everything(kube_system()),
        ),
        schema(
            ("service-accounts", "workload-low", 9000, BY_USER),
            everything(groups(&["system:serviceaccounts"])),
        ),
        schema(("global-default", "global-default", 9900, BY_USER), everything(groups(&EVERYONE))),
    ]
}

/// Gives a mandatory level the spec that it has to have. What an exempt level lends is its
/// owner's to say.
pub fn fix_level(found: &mut PriorityLevelConfiguration, fixed: &PriorityLevelConfiguration) {
    let exempt = found.spec.exempt.take();
    found.spec = fixed.spec.clone();
    if fixed.spec.exempt.is_some() {
        found.spec.exempt = exempt;
    }
}

/// Gives a mandatory schema the spec that it has to have.
pub fn fix_schema(found: &mut FlowSchema, fixed: &FlowSchema) {
    found.spec.clone_from(&fixed.spec);
}

/// The objects, with `fix` applied to those that are mandatory, and the mandatory ones that lack.
pub(crate) fn fix_and_add<K: MaintainedObject>(
    found: &[K],
    mandatory: Vec<K>,
    fix: fn(&mut K, &K),
) -> Vec<K> {
    let mut all = found.to_vec();
    for fixed in mandatory {
        let name = &fixed.metadata().name;
        match all.iter_mut().find(|object| object.metadata().name == *name) {
            Some(object) => fix(object, &fixed),
            None => all.push(fixed),
        }
    }
    all
}

fn level(name: &str, spec: PriorityLevelConfigurationSpec) -> PriorityLevelConfiguration {
    PriorityLevelConfiguration { metadata: metadata(name), spec, status: None }
}

fn limited(
    shares: i32,
    lendable: i32,
    limit_response: LimitResponse,
) -> PriorityLevelConfigurationSpec {
    PriorityLevelConfigurationSpec {
        type_: "Limited".to_owned(),
        exempt: None,
        limited: Some(LimitedPriorityLevelConfiguration {
            nominal_concurrency_shares: Some(shares),
            lendable_percent: Some(lendable),
            borrowing_limit_percent: None,
            limit_response,
        }),
    }
}

fn schema(
    (name, level, precedence, distinguisher): (&str, &str, i32, Option<&str>),
    rule: PolicyRulesWithSubjects,
) -> FlowSchema {
    let method = distinguisher.map(|type_| FlowDistinguisherMethod { type_: type_.to_owned() });
    FlowSchema {
        metadata: metadata(name),
        spec: FlowSchemaSpec {
            priority_level_configuration: PriorityLevelConfigurationReference {
                name: level.to_owned(),
            },
            matching_precedence: Some(precedence),
            distinguisher_method: method,
            rules: Some(vec![rule]),
        },
        status: None,
    }
}

fn metadata(name: &str) -> ObjectMeta {
    let annotations = BTreeMap::from([(AUTO_UPDATE.to_owned(), "true".to_owned())]);
    ObjectMeta {
        name: Some(name.to_owned()),
        annotations: Some(annotations),
        ..ObjectMeta::default()
    }
}

fn everything(subjects: Vec<Subject>) -> PolicyRulesWithSubjects {
    let resources =
        ResourcePolicyRule { cluster_scope: Some(true), ..resources(&[ALL], ALL, &[ALL]) };
    let paths = NonResourcePolicyRule { verbs: words(&[ALL]), non_resource_urls: words(&[ALL]) };
    PolicyRulesWithSubjects {
        subjects,
        resource_rules: Some(vec![resources]),
        non_resource_rules: Some(vec![paths]),
    }
}

fn probes() -> PolicyRulesWithSubjects {
    PolicyRulesWithSubjects {
        subjects: groups(&EVERYONE),
        resource_rules: None,
        non_resource_rules: Some(vec![NonResourcePolicyRule {
            verbs: words(&["get"]),
            non_resource_urls: words(&["/healthz", "/readyz", "/livez"]),
        }]),
    }
}

fn of(subjects: Vec<Subject>, rules: Vec<ResourcePolicyRule>) -> PolicyRulesWithSubjects {
    PolicyRulesWithSubjects { subjects, resource_rules: Some(rules), non_resource_rules: None }
}

/// In every namespace.
fn resources(verbs: &[&str], group: &str, resources: &[&str]) -> ResourcePolicyRule {
    ResourcePolicyRule {
        verbs: words(verbs),
        api_groups: words(&[group]),
        resources: words(resources),
        namespaces: Some(words(&[ALL])),
        cluster_scope: None,
    }
}

fn groups(names: &[&str]) -> Vec<Subject> {
    let group = |name: &&str| Subject {
        kind: "Group".to_owned(),
        group: Some(GroupSubject { name: (*name).to_owned() }),
        ..Subject::default()
    };
    names.iter().map(group).collect()
}

fn user(name: &str) -> Subject {
    Subject {
        kind: "User".to_owned(),
        user: Some(UserSubject { name: name.to_owned() }),
        ..Subject::default()
    }
}

/// A service account of kube-system.
fn service_account(name: &str) -> Subject {
    Subject {
        kind: "ServiceAccount".to_owned(),
        service_account: Some(ServiceAccountSubject {
            name: name.to_owned(),
            namespace: KUBE_SYSTEM.to_owned(),
        }),
        ..Subject::default()
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
