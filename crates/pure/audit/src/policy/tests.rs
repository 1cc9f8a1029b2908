use k8s_openapi::api::authentication::v1::UserInfo;
use serde_json::{Value, json};

use super::*;
use crate::level::AuditStage;
use crate::subject::AuditObjectReference;

fn policy(mut value: Value) -> Result<AuditPolicy, String> {
    value["apiVersion"] = API_VERSION.into();
    value["kind"] = KIND.into();
    AuditPolicy::from_value(value).map_err(|error| error.to_string())
}

/// A policy of one rule, with the level Metadata.
fn rule(mut rule: Value) -> AuditPolicy {
    rule["level"] = "Metadata".into();
    policy(json!({ "rules": [rule] })).unwrap()
}

fn ann() -> Option<UserInfo> {
    Some(UserInfo {
        username: Some("ann".to_owned()),
        groups: Some(vec!["dev".to_owned(), "system:authenticated".to_owned()]),
        ..UserInfo::default()
    })
}

/// `VERB /path` or `VERB group/resource[/subresource] [namespace/name]`; `core` is the core group.
fn subject(text: &str) -> AuditSubject {
    let mut words = text.split(' ');
    let (verb, what) = (words.next().unwrap(), words.next().unwrap());
    let subject = AuditSubject {
        user: ann(),
        verb: verb.to_owned(),
        path: what.to_owned(),
        ..AuditSubject::default()
    };
    if what.starts_with('/') {
        return subject;
    }
    let mut parts = what.split('/');
    let mut part = || parts.next().unwrap_or_default().to_owned();
    let (group, resource, subresource) = (part(), part(), part());
    let (namespace, name) = words.next().and_then(|word| word.split_once('/')).unwrap_or_default();
    let object = AuditObjectReference {
        api_group: if group == "core" { String::new() } else { group },
        resource,
        subresource,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..AuditObjectReference::default()
    };
    AuditSubject { object: Some(object), ..subject }
}

#[test]
fn a_rule_matches_what_it_matches_upstream() {
    let core = |resources: Value| json!({"resources": [{"group": "", "resources": resources}]});
    let named = |names: Value| json!({"resources": [{"group": "", "resources": ["configmaps"], "resourceNames": names}]});
    let paths = |paths: Value| json!({ "nonResourceURLs": paths });
    let pod = "get core/pods shop/web";
    let log = "get core/pods/log shop/web";
    for (of_rule, request, matches) in [
        (json!({}), pod, true),
        (json!({}), "get /healthz", true),
        (json!({"users": ["ann"]}), pod, true),
        (json!({"users": ["bob"]}), pod, false),
        (json!({"userGroups": ["ops", "dev"]}), pod, true),
        (json!({"userGroups": ["ops"]}), pod, false),
        (json!({"users": ["ann"], "userGroups": ["ops"]}), pod, false),
        (json!({"verbs": ["get", "list"]}), pod, true),
        (json!({"verbs": ["list"]}), pod, false),
        (json!({"verbs": null, "namespaces": null, "omitManagedFields": null}), pod, true),
        (json!({"namespaces": ["shop"]}), pod, true),
        (json!({"namespaces": ["other"]}), pod, false),
        (json!({"namespaces": [""]}), "get core/nodes /node-1", true),
        (json!({"namespaces": [""]}), pod, false),
        (json!({"namespaces": ["shop"]}), "get /healthz", false),
        (json!({"resources": [{"group": ""}]}), log, true),
        (
            json!({"resources": [{"group": null, "resources": null, "resourceNames": null}]}),
            pod,
            true,
        ),
        (json!({"resources": [{"group": "apps"}]}), pod, false),
        (json!({"resources": [{"group": "apps"}, {}]}), pod, true),
        (core(json!(["pods"])), pod, true),
        (core(json!(["pods"])), log, false),
        (core(json!(["pods/log"])), log, true),
        (core(json!(["pods/log"])), pod, false),
        (core(json!(["pods/*"])), log, true),
        (core(json!(["pods/*"])), pod, true),
        (core(json!(["pods/*"])), "get core/services/proxy shop/web", false),
        (core(json!(["*/log"])), log, true),
        (core(json!(["*/log"])), pod, false),
        (core(json!(["*/scale"])), log, false),
        (core(json!(["*"])), log, true),
        (core(json!(["*"])), "get apps/deployments shop/web", false),
        (core(json!(["services", "pods"])), pod, true),
        (named(json!(["leader"])), "update core/configmaps kube-system/leader", true),
        (named(json!(["leader"])), "update core/configmaps kube-system/other", false),
        (named(json!(["leader"])), "list core/configmaps", false),
        (named(json!([])), "list core/configmaps", true),
        (paths(json!(["/healthz"])), "get /healthz", true),
        (paths(json!(["/healthz"])), "get /healthz/ping", false),
        (paths(json!(["/healthz*"])), "get /healthz/ping", true),
        (paths(json!(["/api*"])), "get /version", false),
        (paths(json!(["*"])), "get /version", true),
        (paths(json!(["*"])), pod, false),
    ] {
        let level = rule(of_rule.clone()).decide(&subject(request)).level;
        let expected = if matches { AuditLevel::Metadata } else { AuditLevel::None };
        assert_eq!(level, expected, "{of_rule} for {request}");
    }
}

#[test]
fn rules_about_users_are_not_for_requests_without_one() {
    let stranger = AuditSubject { user: None, ..subject("get /version") };
    for (of_rule, matches) in [
        (json!({"users": [""]}), false),
        (json!({"userGroups": ["dev"]}), false),
        (json!({"verbs": ["get"]}), true),
    ] {
        let level = rule(of_rule.clone()).decide(&stranger).level;
        assert_eq!(level == AuditLevel::Metadata, matches, "{of_rule}");
    }
}

#[test]
fn the_first_rule_that_matches_decides() {
    let policy = policy(json!({
        "omitStages": ["RequestReceived"],
        "omitManagedFields": true,
        "rules": [
            {"level": "None", "users": ["bob"]},
            {"level": "Metadata", "resources": [{"resources": ["secrets"]}], "omitStages": ["Panic"]},
            {"level": "RequestResponse", "verbs": ["create"], "omitManagedFields": false},
            {"level": "Request", "resources": [{}]},
        ],
    }))
    .unwrap();
    let decided = |text: &str| policy.decide(&subject(text));
    let secret = decided("create core/secrets shop/key");
    assert_eq!(secret.level, AuditLevel::Metadata);
    assert_eq!(secret.managed_fields, ManagedFieldsMode::Omit);
    for (stage, is_omitted) in [
        (AuditStage::RequestReceived, true),
        (AuditStage::Panic, true),
        (AuditStage::ResponseStarted, false),
        (AuditStage::ResponseComplete, false),
    ] {
        assert_eq!(secret.omit_stages.contains(stage), is_omitted, "{stage:?}");
    }
    let created = decided("create core/pods shop/web");
    assert_eq!(created.level, AuditLevel::RequestResponse);
    assert_eq!(created.managed_fields, ManagedFieldsMode::Keep, "the rule's word counts");
    assert!(!created.omit_stages.contains(AuditStage::Panic));
    assert_eq!(decided("get core/pods shop/web").level, AuditLevel::Request);
    assert_eq!(decided("get /version").level, AuditLevel::None, "no rule is for it");
}

#[test]
fn what_is_wrong_with_a_policy_is_named_with_its_field() {
    let levels = r#"supported values: "None", "Metadata", "Request", "RequestResponse""#;
    for (value, expected) in [
        (json!({}), "rules: Required value: a policy needs one rule at least".to_owned()),
        (json!({"rules": [{}]}), "rules[0].level: Required value".to_owned()),
        (json!({"rules": [{"level": null}]}), "rules[0].level: Required value".to_owned()),
        (
            json!({"rules": [{"level": "All"}, {"level": "None"}]}),
            format!(r#"rules[0].level: Unsupported value: "All": {levels}"#),
        ),
        (
            json!({"rules": [{"level": "None", "nonResourceURLs": ["*", "version", "/a*b"]}]}),
            "rules[0].nonResourceURLs[1]: Invalid value: \"version\": non-resource URL rules must begin with a '/' character, \
             rules[0].nonResourceURLs[2]: Invalid value: \"/a*b\": non-resource URL wildcards '*' must be the final character of the rule"
                .to_owned(),
        ),
        (
            json!({"rules": [{"level": "None", "nonResourceURLs": ["/a"], "namespaces": ["x"]}]}),
            "rules[0].nonResourceURLs: Invalid value: [\"/a\"]: rules cannot apply to both regular resources and non-resource URLs"
                .to_owned(),
        ),
        (
            json!({"rules": [{"level": "None", "resources": [{"resourceNames": ["a"]}]}]}),
            "rules[0].resources[0].resourceNames: Invalid value: [\"a\"]: using resourceNames requires at least one resource"
                .to_owned(),
        ),
        (
            json!({"rules": [{"level": "None", "omitStages": ["Panic", "Done"]}]}),
            "rules[0].omitStages[1]: Invalid value: \"Done\": allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic"
                .to_owned(),
        ),
        (
            json!({"rules": [{"level": "None"}], "omitStages": ["x"]}),
            "omitStages[0]: Invalid value: \"x\": allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic"
                .to_owned(),
        ),
    ] {
        assert_eq!(policy(value.clone()), Err(expected), "{value}");
    }
}

#[test]
fn a_policy_of_another_shape_is_refused() {
    for (value, expected) in [
        (json!({"rules": [{"level": "None", "user": []}]}), "rules[0].user: unknown field `user`"),
        (
            json!({"rules": [{"level": "None", "resources": [{"groups": []}]}]}),
            "rules[0].resources[0].groups: unknown field `groups`",
        ),
        (
            json!({"rules": [{"level": "None", "verbs": "get"}]}),
            "rules[0].verbs: invalid type: string \"get\"",
        ),
        (
            json!({"rules": [{"level": "None", "resources": [{"group": "rbac.authorization.k8s.io/v1"}]}]}),
            "rules[0].resources[0].group: Invalid value: \"rbac.authorization.k8s.io/v1\"",
        ),
    ] {
        let error = policy(value.clone()).unwrap_err();
        assert!(error.starts_with(expected), "{value}: {error}");
    }
    let old = json!({"apiVersion": "audit.k8s.io/v1beta1", "kind": "Policy"});
    assert_eq!(
        AuditPolicy::from_value(old).unwrap_err().to_string(),
        "apiVersion \"audit.k8s.io/v1beta1\", kind \"Policy\": must be Policy of audit.k8s.io/v1"
    );
}
