//! FlowSchemas and priority levels: the server's own, what they may say, and which one a request
//! belongs to.

use http::Method;
use rekindle_api::request::RequestLine;
use rekindle_kinds::identity::{ClientIdentity, UserInfo};
use serde_json::{Value, json};

use crate::harness::{Bench, config_map};

const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";

fn bench() -> Bench {
    let mut bench = Bench::new();
    maintain(&mut bench);
    bench
}

/// As the keeper of the server does: until nothing is to be done.
fn maintain(bench: &mut Bench) {
    for _ in 0..3 {
        if bench.api.maintain_flow_control(bench.now).unwrap().is_empty() {
            return;
        }
        bench.committer.commit_pending().unwrap();
    }
    panic!("something is written each time");
}

fn schema(name: &str, level: &str) -> Value {
    let rule = json!({
        "subjects": [{"kind": "User", "user": {"name": "ann"}}],
        "resourceRules": [{
            "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"],
        }],
    });
    json!({
        "metadata": {"name": name},
        "spec": {
            "priorityLevelConfiguration": {"name": level},
            "matchingPrecedence": 50,
            "rules": [rule],
        },
    })
}

/// The cells of a table, by the name of the object.
fn row(bench: &mut Bench, collection: &str, name: &str) -> String {
    let mut request = bench.request("GET", collection, "");
    "application/json;as=Table;v=v1;g=meta.k8s.io".clone_into(&mut request.accept);
    let table: Value = serde_json::from_slice(&bench.answer(&request).body).unwrap();
    let columns = table["columnDefinitions"].as_array().unwrap();
    let rows = table["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["cells"][0] == name).unwrap();
    let cells = columns.iter().zip(row["cells"].as_array().unwrap());
    let shown = cells.map(|(column, cell)| format!("{}={cell}", column["name"].as_str().unwrap()));
    shown.collect::<Vec<_>>().join(" ").replace('"', "")
}

#[test]
fn every_server_has_upstreams_objects() {
    let mut bench = bench();
    for (collection, count) in [(SCHEMAS, 13), (LEVELS, 8)] {
        assert_eq!(bench.get(collection)["items"].as_array().unwrap().len(), count);
    }
    assert_eq!(
        row(&mut bench, SCHEMAS, "service-accounts"),
        "Name=service-accounts PriorityLevel=workload-low MatchingPrecedence=9000 \
         DistinguisherMethod=ByUser Age=0s MissingPL=False"
    );
    assert_eq!(
        row(&mut bench, SCHEMAS, "exempt"),
        "Name=exempt PriorityLevel=exempt MatchingPrecedence=1 DistinguisherMethod=<none> Age=0s \
         MissingPL=False"
    );
    assert_eq!(
        row(&mut bench, LEVELS, "system"),
        "Name=system Type=Limited NominalConcurrencyShares=30 Queues=64 HandSize=6 \
         QueueLengthLimit=50 Age=0s"
    );
}

#[test]
fn the_servers_own_objects_come_back() {
    let mut bench = bench();
    for target in [format!("{SCHEMAS}/catch-all"), format!("{LEVELS}/workload-low")] {
        bench.call("DELETE", &target, "").ok();
        maintain(&mut bench);
        bench.get(&target);
    }
    let target = format!("{SCHEMAS}/service-accounts");
    let change = r#"{"spec": {"matchingPrecedence": 77}}"#;
    bench.call("PATCH", &target, change).ok();
    maintain(&mut bench);
    let restored = bench.get(&target);
    assert_eq!(restored["spec"]["matchingPrecedence"], 9000);
    assert_eq!(restored["metadata"]["generation"], 3);
    let kept = r#"{"metadata": {"annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}},
        "spec": {"matchingPrecedence": 77}}"#;
    bench.call("PATCH", &target, kept).ok();
    maintain(&mut bench);
    assert_eq!(bench.get(&target)["spec"]["matchingPrecedence"], 77);
}

#[test]
fn a_mandatory_spec_cannot_be_changed() {
    let mut bench = bench();
    for (target, change) in [
        (format!("{SCHEMAS}/catch-all"), r#"{"spec": {"matchingPrecedence": 9999}}"#),
        (format!("{SCHEMAS}/exempt"), r#"{"spec": {"rules": null}}"#),
        (
            format!("{LEVELS}/catch-all"),
            r#"{"spec": {"limited": {"nominalConcurrencyShares": 500}}}"#,
        ),
    ] {
        let refused = bench.call("PATCH", &target, change);
        assert_eq!(refused.code(), 422, "{target}");
        assert!(refused.text().contains("must equal the fixed value"), "{}", refused.text());
    }
    let lends = r#"{"spec": {"exempt": {"nominalConcurrencyShares": 10, "lendablePercent": 50}}}"#;
    bench.call("PATCH", &format!("{LEVELS}/exempt"), lends).ok();
}

#[test]
fn a_schema_says_whether_its_level_is_missing() {
    let mut bench = bench();
    let created = bench.call("POST", SCHEMAS, &schema("mine", "later").to_string());
    assert_eq!(created.code(), 201, "{}", created.text());
    assert!(row(&mut bench, SCHEMAS, "mine").ends_with("MissingPL=?"));
    maintain(&mut bench);
    assert!(row(&mut bench, SCHEMAS, "mine").ends_with("MissingPL=True"));
    let limited = json!({"limitResponse": {"type": "Reject"}});
    let level = json!({
        "metadata": {"name": "later"}, "spec": {"type": "Limited", "limited": limited},
    });
    bench.create(LEVELS, level);
    maintain(&mut bench);
    let condition = &bench.get(&format!("{SCHEMAS}/mine"))["status"]["conditions"][0];
    assert_eq!(condition["type"], "Dangling");
    assert_eq!(condition["status"], "False");
    assert_eq!(
        condition["message"],
        "This FlowSchema references the PriorityLevelConfiguration object named \"later\" and it exists"
    );
}

#[test]
fn what_rules_may_say_is_upstreams() {
    let mut bench = Bench::new();
    let rule = "spec.rules[0]";
    let resources = format!("{rule}.resourceRules[0]");
    let paths = format!("{rule}.nonResourceRules[0].nonResourceURLs");
    let path_rule = |path: &str| json!([{"verbs": ["get"], "nonResourceURLs": [path]}]);
    for (pointer, value, field) in [
        ("/spec/matchingPrecedence", json!(1), "spec.matchingPrecedence"),
        ("/spec/rules/0/subjects", json!([]), &format!("{rule}.subjects")),
        ("/spec/rules/0/subjects/0/kind", json!("Robot"), &format!("{rule}.subjects[0].kind")),
        ("/spec/rules/0/subjects/0/kind", json!("Group"), &format!("{rule}.subjects[0].group")),
        ("/spec/rules/0/subjects/0/kind", json!("Group"), &format!("{rule}.subjects[0].user")),
        ("/spec/rules/0/subjects/0/user/name", json!(""), &format!("{rule}.subjects[0].user.name")),
        ("/spec/rules/0/resourceRules", json!([]), rule),
        ("/spec/rules/0/resourceRules/0/verbs", json!(["*", "get"]), &format!("{resources}.verbs")),
        ("/spec/rules/0/resourceRules/0/verbs", json!(["look"]), &format!("{resources}.verbs")),
        ("/spec/rules/0/resourceRules/0/apiGroups", json!([]), &format!("{resources}.apiGroups")),
        ("/spec/rules/0/resourceRules/0/namespaces", json!([]), &format!("{resources}.namespaces")),
        (
            "/spec/rules/0/resourceRules/0/namespaces",
            json!(["A"]),
            &format!("{resources}.namespaces[0]"),
        ),
        ("/spec/rules/0/nonResourceRules", path_rule("metrics"), &format!("{paths}[0]")),
        ("/spec/rules/0/nonResourceRules", path_rule("/a*"), &format!("{paths}[0]")),
    ] {
        let mut object = schema("mine", "later");
        object["spec"]["rules"][0]["nonResourceRules"] = json!([]);
        *object.pointer_mut(pointer).unwrap() = value.clone();
        let refused = bench.call("POST", SCHEMAS, &object.to_string());
        assert_eq!(refused.code(), 422, "{pointer} {value}: {}", refused.text());
        let causes = refused.json()["details"]["causes"].clone();
        let named = causes.as_array().unwrap().iter().any(|cause| cause["field"] == *field);
        assert!(named, "{pointer} {value}: {causes}");
    }
    for path in ["/", "/metrics", "/openapi/*", "*"] {
        let mut object = schema("mine", "later");
        object["spec"]["rules"][0]["nonResourceRules"] = path_rule(path);
        let taken = bench.call("POST", &format!("{SCHEMAS}?dryRun=All"), &object.to_string());
        assert_eq!(taken.code(), 201, "{path}: {}", taken.text());
    }
}

#[test]
fn hands_that_need_too_many_bits_are_refused() {
    let mut bench = Bench::new();
    for (queues, hand, code) in [(512, 8, 422), (128, 6, 201)] {
        let queuing = json!({"queues": queues, "handSize": hand, "queueLengthLimit": 50});
        let limited = json!({"limitResponse": {"type": "Queue", "queuing": queuing}});
        let level = json!({
            "metadata": {"name": "wide"}, "spec": {"type": "Limited", "limited": limited},
        });
        assert_eq!(bench.call("POST", LEVELS, &level.to_string()).code(), code, "{queues} {hand}");
    }
}

#[test]
fn a_request_has_a_class_and_a_width() {
    let mut bench = bench();
    for number in 0..250 {
        let made = config_map(&format!("c{number}"));
        bench.create("/api/v1/namespaces/default/configmaps", made);
    }
    let configuration = bench.api.flow_configuration().unwrap();
    let ann = ClientIdentity::User(UserInfo::new("ann", []));
    let class = |method: Method, target: &str, who: &ClientIdentity| {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let line = RequestLine { method: &method, path, query };
        let classified = bench.api.classify(&configuration, who, &line)?;
        Some((classified.class.schema().to_owned(), classified.width))
    };
    let maps = "/api/v1/namespaces/default/configmaps";
    let default = |width| Some(("global-default".to_owned(), width));
    for (target, expected) in [
        (maps.to_owned(), default(3)),
        ("/api/v1/configmaps?limit=10".to_owned(), default(1)),
        (format!("{maps}?limit=150"), default(2)),
        (format!("{maps}?limit=10&labelSelector=a"), default(3)),
        (format!("{maps}/c1"), default(1)),
        (format!("{maps}?watch=true"), default(1)),
        (format!("{maps}?watch=true&sendInitialEvents=true"), default(3)),
        ("/api/v1/namespaces/default/pods/a/log".to_owned(), None),
        ("/api/v1/namespaces/default/services/a/proxy/x".to_owned(), None),
        ("/version".to_owned(), default(1)),
        ("/healthz".to_owned(), Some(("probes".to_owned(), 1))),
    ] {
        assert_eq!(class(Method::GET, &target, &ann), expected, "{target}");
    }
    let anonymous = class(Method::GET, "/livez", &ClientIdentity::Anonymous);
    assert_eq!(anonymous, Some(("probes".to_owned(), 1)));
    let root = ClientIdentity::User(UserInfo::internal("root"));
    assert_eq!(class(Method::DELETE, maps, &root), Some(("exempt".to_owned(), 1)));
}
