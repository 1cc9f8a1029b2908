//! Kinds that a user's CustomResourceDefinition describes, with the real kubectl.

use rekindle_testkit::{Engine, text};
use serde_json::json;

/// What an operator for databases brings: columns, `/status`, `/scale`, defaults and limits.
const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: databases.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: databases, kind: Database, shortNames: [db], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Engine, type: string, jsonPath: .spec.engine}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            description: What the database shall be.
            required: [engine]
            properties:
              engine: {type: string, enum: [postgres, mysql], description: Which engine runs.}
              replicas: {type: integer, minimum: 0, maximum: 5, default: 1}
              tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
          status:
            type: object
            x-kubernetes-preserve-unknown-fields: true
"#;

const DATABASE: &str = "
apiVersion: example.org/v1
kind: Database
metadata: {name: orders}
spec: {engine: postgres}
";

/// An engine that serves databases, with one of them.
fn with_database() -> Engine {
    let engine = Engine::start();
    engine.apply(DEFINITION);
    engine.apply(DATABASE);
    engine
}

#[test]
fn kubectl_works_with_a_users_kind_as_with_built_in_ones() {
    let engine = with_database();
    engine.kubectl(&["wait", "--for=condition=Established", "crd/databases.example.org"]);
    assert_eq!(engine.get("db/orders")["spec"], json!({"engine": "postgres", "replicas": 1}));
    let explained = engine.kubectl(&["explain", "databases.spec.engine"]);
    assert!(explained.contains("Which engine runs.") && explained.contains("mysql"), "{explained}");
    let known = engine.kubectl(&["api-resources", "--api-group=example.org", "--no-headers"]);
    assert_eq!(
        known.split_whitespace().collect::<Vec<_>>(),
        ["databases", "db", "example.org/v1", "true", "Database"]
    );

    engine.kubectl(&["scale", "db/orders", "--replicas=3"]);
    let ready = r#"{"status":{"replicas":3,"conditions":[{"type":"Ready","status":"True"}]}}"#;
    let patch = ["patch", "db", "orders", "--type=merge", "-p", ready];
    engine.kubectl(&[&patch[..], &["--subresource=status"]].concat());
    let listed = engine.kubectl(&["get", "all"]);
    let row = listed.lines().find(|line| line.contains("orders")).unwrap_or_default();
    assert_eq!(
        row.split_whitespace().collect::<Vec<_>>(),
        ["database.example.org/orders", "postgres", "True"],
        "{listed}"
    );
    let object = engine.get("db/orders");
    assert_eq!(
        (&object["spec"]["replicas"], &object["metadata"]["generation"]),
        (&json!(3), &json!(2))
    );
}

#[test]
fn an_object_that_does_not_fit_is_refused_by_field() {
    let engine = with_database();
    let wrong = DATABASE.replace("engine: postgres", "engine: dbase, replicas: 9, colour: red");
    let error = engine.kubectl_fails(&["apply", "-f", "-"], &wrong);
    assert!(error.contains(r#"unknown field "spec.colour""#), "{error}");
    let error = engine.kubectl_fails(&["apply", "--validate=false", "-f", "-"], &wrong);
    for word in ["spec.engine: Unsupported value: \"dbase\"", "spec.replicas: Invalid value: 9"] {
        assert!(error.contains(word), "{word}: {error}");
    }
    let broken = DEFINITION.replace("type: array, ", "");
    let error = engine.kubectl_fails(&["apply", "-f", "-"], &broken);
    assert!(error.contains("properties[tags].type: Required value"), "{error}");
}

#[test]
fn owners_share_the_fields_of_an_object_by_its_schema() {
    let engine = Engine::start();
    engine.apply(DEFINITION);
    let apply = |owner: &str, spec: &str| {
        let owner = format!("--field-manager={owner}");
        let object = DATABASE.replace("{engine: postgres}", spec);
        engine.try_kubectl(&["apply", "--server-side", &owner, "-f", "-"], &object)
    };
    assert!(apply("ann", "{engine: postgres, tags: [red]}").status.success());
    assert!(apply("ben", "{engine: postgres, tags: [blue]}").status.success());
    assert_eq!(engine.get("db/orders")["spec"]["tags"], json!(["red", "blue"]));
    let refused = apply("ben", "{engine: mysql}");
    assert!(text(&refused.stderr).contains("conflict with \"ann\": .spec.engine"));
}

#[test]
fn objects_outlive_a_kill_own_others_and_go_with_their_definition() {
    let mut engine = with_database();
    engine.kill();
    engine.launch(&[]);
    let uid = engine.get("db/orders")["metadata"]["uid"].as_str().unwrap().to_owned();
    let settings = |name: &str| {
        format!(
            "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, ownerReferences: [\
             {{apiVersion: example.org/v1, kind: Database, name: orders, uid: {uid}}}]}}}}"
        )
    };
    engine.apply(&settings("settings"));
    engine.kubectl(&["delete", "db", "orders"]);
    engine.kubectl(&["wait", "--for=delete", "configmap/settings", rekindle_testkit::TIMEOUT]);

    // one that a finalizer holds keeps its definition
    let held = DATABASE.replace("{name: orders}", "{name: held, finalizers: [example.org/backup]}");
    engine.apply(&held);
    engine.kubectl(&["delete", "crd", "databases.example.org", "--wait=false"]);
    let refused = engine.kubectl_fails(&["create", "-f", "-"], DATABASE);
    assert!(refused.contains("definition is terminating"), "{refused}");
    let free = r#"{"metadata":{"finalizers":null}}"#;
    engine.kubectl(&["patch", "db", "held", "--type=merge", "-p", free]);
    let gone = ["wait", "--for=delete", "crd/databases.example.org", rekindle_testkit::TIMEOUT];
    engine.kubectl(&gone);
    let unknown = engine.kubectl_fails(&["get", "databases.example.org"], "");
    assert!(unknown.contains("the server doesn't have a resource type"), "{unknown}");
}

#[test]
fn a_namespace_takes_the_objects_of_users_kinds_with_it() {
    let engine = Engine::start();
    engine.apply(DEFINITION);
    engine.kubectl(&["create", "namespace", "shop"]);
    engine.kubectl_with(&["apply", "-n", "shop", "-f", "-"], DATABASE);
    engine.kubectl(&["delete", "namespace", "shop", rekindle_testkit::TIMEOUT]);
    engine.kubectl(&["create", "namespace", "shop"]);
    let left = engine.kubectl(&["get", "databases", "-n", "shop", "-o", "name"]);
    assert_eq!(left, "", "nothing of the one before");
}
