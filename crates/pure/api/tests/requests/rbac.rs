//! Roles and bindings decide what a user may do.

use expect_test::expect;
use rekindle_api::Impersonation;
use rekindle_kinds::identity::{ClientIdentity, UserInfo};
use serde_json::{Value, json};

use crate::harness::{Bench, CONFIG_MAPS, PODS, config_map, pod};

const GROUP: &str = "/apis/rbac.authorization.k8s.io/v1";

fn bob() -> UserInfo {
    UserInfo::new("bob", ["dev".to_owned()])
}

fn rules(verbs: &[&str], groups: &[&str], resources: &[&str]) -> Value {
    json!([{"verbs": verbs, "apiGroups": groups, "resources": resources}])
}

fn role(name: &str, rules: Value) -> Value {
    json!({"metadata": {"name": name}, "rules": rules})
}

fn binding(name: &str, kind: &str, role: &str, subject: Value) -> Value {
    json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [subject],
    })
}

fn to_bob() -> Value {
    json!({"kind": "User", "name": "bob"})
}

fn in_default(plural: &str) -> String {
    format!("{GROUP}/namespaces/default/{plural}")
}

/// As upstream's `RequestInfo` has it.
#[test]
fn the_head_of_what_may_be_read_may_be_asked_for() {
    let mut bench = Bench::new();
    bench.create(PODS, pod("web"));
    bench.create(&in_default("roles"), role("reader", rules(&["get"], &[""], &["pods/proxy"])));
    bench.create(&in_default("rolebindings"), binding("readers", "Role", "reader", to_bob()));
    let ask = |bench: &mut Bench, target: &str| {
        bench.as_user(bob(), |bench| bench.call("HEAD", target, "").code())
    };
    assert_eq!(ask(&mut bench, &format!("{PODS}/web/proxy/")), 400, "the pod has no address yet");
    assert_eq!(ask(&mut bench, &format!("{PODS}/web")), 403);
}

#[test]
fn a_binding_allows_from_the_moment_it_is_written_until_it_is_gone() {
    let mut bench = Bench::new();
    bench.create(PODS, pod("web"));
    let ask = |bench: &mut Bench, target: &str| {
        bench.as_user(bob(), |bench| bench.call("GET", target, "").text())
    };
    expect![[r#"403 Forbidden: pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "default""#]]
        .assert_eq(&ask(&mut bench, PODS));
    bench.create(&in_default("roles"), role("reader", rules(&["get", "list"], &[""], &["pods"])));
    assert!(ask(&mut bench, PODS).starts_with("403"), "a role alone gives nothing");
    bench.create(&in_default("rolebindings"), binding("readers", "Role", "reader", to_bob()));
    assert!(ask(&mut bench, PODS).starts_with("200"));
    assert!(ask(&mut bench, &format!("{PODS}/web")).starts_with("200"));
    assert!(ask(&mut bench, "/api/v1/pods").starts_with("403"), "in its namespace only");
    assert!(ask(&mut bench, "/api/v1/namespaces/kube-system/pods").starts_with("403"));
    assert!(ask(&mut bench, &format!("{PODS}/web/log")).starts_with("403"));
    let patch = json!({"rules": rules(&["list"], &[""], &["pods"])}).to_string();
    bench.patch("merge-patch+json", &format!("{}/reader", in_default("roles")), &patch).ok();
    assert!(ask(&mut bench, &format!("{PODS}/web")).starts_with("403"), "a rule less");
    bench.call("DELETE", &format!("{}/readers", in_default("rolebindings")), "").ok();
    assert!(ask(&mut bench, PODS).starts_with("403"));
}

#[test]
fn names_in_a_rule_allow_selections_by_that_name() {
    let mut bench = Bench::new();
    bench.create(CONFIG_MAPS, config_map("mine"));
    let mut rules = rules(&["get", "list", "watch"], &[""], &["configmaps"]);
    rules[0]["resourceNames"] = json!(["mine"]);
    bench.create(&in_default("roles"), role("mine", rules));
    bench.create(&in_default("rolebindings"), binding("mine", "Role", "mine", to_bob()));
    for (target, code) in [
        (format!("{CONFIG_MAPS}/mine"), 200),
        (format!("{CONFIG_MAPS}/other"), 403),
        (CONFIG_MAPS.to_owned(), 403),
        (format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Dmine"), 200),
    ] {
        let got = bench.as_user(bob(), |bench| bench.call("GET", &target, "").code());
        assert_eq!(got, code, "{target}");
    }
}

#[test]
fn the_roles_that_users_expect_are_there_and_are_mended_at_the_next_start() {
    let mut bench = Bench::new();
    let roles = bench.get(&format!("{GROUP}/clusterroles"));
    let names: Vec<&str> = roles["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["metadata"]["name"].as_str().unwrap())
        .collect();
    for name in ["admin", "cluster-admin", "edit", "system:basic-user", "system:discovery", "view"]
    {
        assert!(names.contains(&name), "{name}");
    }
    let count = |bench: &mut Bench, name: &str| {
        bench.get(&format!("{GROUP}/clusterroles/{name}"))["rules"].as_array().map_or(0, Vec::len)
    };
    let [view, edit, admin] = ["view", "edit", "admin"].map(|name| count(&mut bench, name));
    assert!(view > 5 && edit > view && admin > edit, "{view} {edit} {admin}");

    bench.call("DELETE", &format!("{GROUP}/clusterroles/view"), "").ok();
    let cut = json!({"rules": []}).to_string();
    bench.patch("merge-patch+json", &format!("{GROUP}/clusterroles/system:basic-user"), &cut).ok();
    let keep = json!({"metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}, "rules": []});
    bench
        .patch(
            "merge-patch+json",
            &format!("{GROUP}/clusterroles/system:discovery"),
            &keep.to_string(),
        )
        .ok();
    bench.api.bootstrap(bench.now).unwrap();
    bench.committer.commit_pending().unwrap();
    assert_eq!(count(&mut bench, "view"), view);
    assert_eq!(count(&mut bench, "system:basic-user"), 3);
    assert_eq!(count(&mut bench, "system:discovery"), 0, "its owner wanted it so");
    let before = bench.api.store().revision();
    bench.api.bootstrap(bench.now).unwrap();
    bench.committer.commit_pending().unwrap();
    assert_eq!(bench.api.store().revision(), before, "what is as it should be is not written");
}

#[test]
fn aggregated_roles_follow_their_parts() {
    let mut bench = Bench::new();
    let mut part = role("widgets", rules(&["get"], &["acme.com"], &["widgets"]));
    part["metadata"]["labels"] = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    bench.create(&format!("{GROUP}/clusterroles"), part);
    let has = |bench: &mut Bench, name: &str| {
        bench.get(&format!("{GROUP}/clusterroles/{name}"))["rules"].to_string().contains("widgets")
    };
    // each round is what the driver does at a change: one level up
    for _ in 0..3 {
        bench.api.aggregate_roles(bench.now).unwrap();
        bench.committer.commit_pending().unwrap();
    }
    assert!(["view", "edit", "admin"].iter().all(|name| has(&mut bench, name)));
    bench.call("DELETE", &format!("{GROUP}/clusterroles/widgets"), "").ok();
    for _ in 0..3 {
        bench.api.aggregate_roles(bench.now).unwrap();
        bench.committer.commit_pending().unwrap();
    }
    assert!(!["view", "edit", "admin"].iter().any(|name| has(&mut bench, name)));
}

/// Upstream fills such a role in by a forced apply of its own: a chart that applies `rules: []` has
/// a conflict at its second apply, if there was a part.
#[test]
fn the_rules_of_an_aggregated_role_belong_to_the_server() {
    let mut bench = Bench::new();
    let mut part = role("part", rules(&["get"], &["acme.com"], &["widgets"]));
    part["metadata"]["labels"] = json!({"acme.com/aggregate": "true"});
    bench.create(&format!("{GROUP}/clusterroles"), part);
    let target = format!("{GROUP}/clusterroles/sum?fieldManager=chart");
    let config = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "sum"}, "rules": [],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"acme.com/aggregate": "true"}}]}});
    bench.patch("apply-patch+yaml", &target, &config.to_string()).ok();
    bench.api.aggregate_roles(bench.now).unwrap();
    bench.committer.commit_pending().unwrap();
    let object = bench.get(&format!("{GROUP}/clusterroles/sum"));
    let owners: Vec<_> = object["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| format!("{} {} {}", entry["manager"], entry["operation"], entry["fieldsV1"]))
        .collect();
    expect![[r#"
        "chart" "Apply" {"f:aggregationRule":{"f:clusterRoleSelectors":{}}}
        "clusterrole-aggregation-controller" "Apply" {"f:rules":{}}"#]]
    .assert_eq(&owners.join("\n"));
    let again = bench.patch("apply-patch+yaml", &target, &config.to_string());
    expect![[r#"409 Conflict: Apply failed with 1 conflict: conflict with "clusterrole-aggregation-controller": .rules"#]].assert_eq(&again.text());
    let mut without = config.clone();
    without.as_object_mut().unwrap().remove("rules");
    bench.patch("apply-patch+yaml", &target, &without.to_string()).ok();
    assert_eq!(bench.get(&format!("{GROUP}/clusterroles/sum"))["rules"], object["rules"]);
}

#[test]
fn nobody_hands_out_more_than_they_have() {
    let mut bench = Bench::new();
    let bindings = in_default("rolebindings");
    bench.create(&bindings, binding("bob-edits", "ClusterRole", "admin", to_bob()));
    bench.as_user(bob(), |bench| {
        // of what he has himself he may make roles and bind them
        bench.create(&in_default("roles"), role("pods", rules(&["get"], &[""], &["pods"])));
        let ann = json!({"kind": "User", "name": "ann"});
        bench.create(&bindings, binding("ann", "Role", "pods", ann.clone()));
        bench.create(&bindings, binding("ann-views", "ClusterRole", "view", ann.clone()));
        let more = role("more", rules(&["get", "proxy"], &[""], &["nodes", "pods"]));
        let refused = bench.call("POST", &in_default("roles"), &more.to_string()).text();
        expect![[r#"
            403 Forbidden: roles.rbac.authorization.k8s.io "more" is forbidden: user "bob" (groups=["dev" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:
            {APIGroups:[""], Resources:["nodes"], Verbs:["get" "proxy"]}
            {APIGroups:[""], Resources:["pods"], Verbs:["proxy"]}"#]]
        .assert_eq(&refused);
        let patch = json!({"rules": rules(&["*"], &["*"], &["*"])}).to_string();
        let reply = bench.patch("merge-patch+json", &format!("{}/pods", in_default("roles")), &patch);
        assert_eq!(reply.code(), 403, "{}", reply.text());
        let everything = binding("ann-all", "ClusterRole", "cluster-admin", ann.clone());
        assert_eq!(bench.call("POST", &bindings, &everything.to_string()).code(), 403);
        let absent = binding("ann-x", "Role", "absent", ann);
        let reply = bench.call("POST", &bindings, &absent.to_string()).text();
        assert_eq!(reply, "404 NotFound: rolebindings.rbac.authorization.k8s.io \"absent\" not found");
        // what changes nothing about the rules is no grant
        let label = r#"{"metadata":{"labels":{"a":"b"}}}"#;
        bench.patch("merge-patch+json", &format!("{bindings}/bob-edits"), label).ok();
    });
    // the rights `bind` and `escalate` lift that
    let lift =
        rules(&["bind", "escalate"], &["rbac.authorization.k8s.io"], &["clusterroles", "roles"]);
    bench.create(&in_default("roles"), role("trusted", lift));
    bench.create(&bindings, binding("bob-trusted", "Role", "trusted", to_bob()));
    bench.as_user(bob(), |bench| {
        let ann = json!({"kind": "User", "name": "ann"});
        bench.create(&bindings, binding("ann-all", "ClusterRole", "cluster-admin", ann));
        bench.create(&in_default("roles"), role("more", rules(&["*"], &["*"], &["*"])));
    });
}

fn as_whom(user: &str, groups: &[&str]) -> Impersonation {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    Impersonation { user: user.to_owned(), groups, ..Impersonation::default() }
}

#[test]
fn acting_as_somebody_is_a_right_over_each_part_of_them() {
    let mut bench = Bench::new();
    let who = |user: UserInfo| ClientIdentity::User(user);
    let master = who(UserInfo::internal("root"));
    let ann = bench.api.impersonate(master.clone(), &as_whom("ann", &["ops"])).unwrap();
    assert_eq!(ann, who(UserInfo::new("ann", ["ops".to_owned()])));
    let robot = as_whom("system:serviceaccount:shop:robot", &[]);
    let ClientIdentity::User(robot) = bench.api.impersonate(master.clone(), &robot).unwrap() else {
        panic!()
    };
    assert!(robot.is_in("system:serviceaccounts:shop"));
    let anonymous = as_whom("system:anonymous", &[]);
    let ClientIdentity::User(anonymous) = bench.api.impersonate(master, &anonymous).unwrap() else {
        panic!()
    };
    assert_eq!(anonymous.groups, ["system:unauthenticated"]);

    let mut ann_only = rules(&["impersonate"], &[""], &["users"]);
    ann_only[0]["resourceNames"] = json!(["ann"]);
    bench.create(&format!("{GROUP}/clusterroles"), role("as-ann", ann_only));
    let give = binding("as-ann", "ClusterRole", "as-ann", to_bob());
    bench.create(&format!("{GROUP}/clusterrolebindings"), give);
    let refusal = |whom: &Impersonation| {
        bench
            .api
            .impersonate(who(bob()), whom)
            .map(|_| String::new())
            .unwrap_or_else(|e| e.to_string())
    };
    assert_eq!(refusal(&as_whom("ann", &[])), "");
    assert_eq!(
        refusal(&as_whom("ann", &["system:masters"])),
        "groups \"system:masters\" is forbidden: User \"bob\" cannot impersonate resource \"groups\" in API group \"\" at the cluster scope"
    );
    assert_eq!(
        refusal(&as_whom("eve", &[])),
        "users \"eve\" is forbidden: User \"bob\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
    );
    let uid = Impersonation { uid: Some("u-1".to_owned()), ..as_whom("ann", &[]) };
    assert!(refusal(&uid).contains("\"uids\" in API group \"authentication.k8s.io\""));
    let error = bench.api.impersonate(ClientIdentity::Anonymous, &as_whom("ann", &[])).unwrap_err();
    assert_eq!(error.code().as_u16(), 401);
}

fn can_i(bench: &mut Bench, verb: &str, resource: &str, namespace: &str) -> Value {
    let review = json!({"spec": {"resourceAttributes": {"verb": verb, "resource": resource, "namespace": namespace}}});
    bench.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)["status"].clone()
}

#[test]
fn reviews_answer_with_reasons() {
    let mut bench = Bench::new();
    bench.create(
        &in_default("rolebindings"),
        binding("viewers", "ClusterRole", "view", json!({"kind": "Group", "name": "dev"})),
    );
    bench.as_user(bob(), |bench| {
        assert_eq!(
            can_i(bench, "list", "pods", "default"),
            json!({"allowed": true, "reason": "RBAC: allowed by RoleBinding \"viewers/default\" of ClusterRole \"view\" to Group \"dev\""})
        );
        assert_eq!(can_i(bench, "list", "secrets", "default"), json!({"allowed": false}));
        assert_eq!(can_i(bench, "list", "pods", "kube-system"), json!({"allowed": false}));
        let rules = bench.create(
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            json!({"spec": {"namespace": "default"}}),
        );
        assert!(rules["status"]["resourceRules"].as_array().unwrap().len() > 5);
        assert!(rules["status"]["nonResourceRules"].to_string().contains("/healthz"));
        let others = json!({"spec": {"user": "ann", "resourceAttributes": {"verb": "get", "resource": "pods"}}});
        let reply = bench.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", &others.to_string());
        assert_eq!(reply.code(), 403, "asking about others is a right of its own");
    });
    for (user, groups, allowed) in [
        ("ann", json!(["dev"]), true),
        ("ann", json!([]), false),
        ("root", json!(["system:masters"]), true),
    ] {
        let spec = json!({"user": user, "groups": groups, "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}});
        let review = bench
            .create("/apis/authorization.k8s.io/v1/subjectaccessreviews", json!({"spec": spec}));
        assert_eq!(review["status"]["allowed"], json!(allowed), "{user} {groups}");
        let local = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";
        let review =
            bench.create(local, json!({"metadata": {"namespace": "default"}, "spec": spec}));
        assert_eq!(review["status"]["allowed"], json!(allowed), "{user} {groups}");
    }
    let elsewhere = json!({"spec": {"user": "a", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "x"}}});
    let local = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";
    assert_eq!(bench.call("POST", local, &elsewhere.to_string()).code(), 422);
}
