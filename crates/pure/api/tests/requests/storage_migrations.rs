//! StorageVersionMigrations: which one is next, what is to be written again, and what is said then.
//! The server's part is played by `go_on`.

use expect_test::expect;
use rekindle_api::storage_migration::{
    MigrationEnd, MigrationStep, definition_migrated, definition_migrating, ended, started,
};
use rekindle_types::{ObjectJson, Tick};
use serde_json::{Value, json};

use crate::harness::{Bench, Reply, START, texts};

const MIGRATIONS: &str = "/apis/storagemigration.k8s.io/v1/storageversionmigrations";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/boats.example.org";
const OLD: &str = "/apis/example.org/v1alpha1/namespaces/default/boats";

fn migration(name: &str, group: &str, resource: &str) -> Value {
    json!({
        "apiVersion": "storagemigration.k8s.io/v1",
        "kind": "StorageVersionMigration",
        "metadata": {"name": name},
        "spec": {"resource": {"group": group, "resource": resource}},
    })
}

/// Two versions without a webhook; that of this name is stored.
fn definition(stored: &str) -> Value {
    let versions = ["v1alpha1", "v1"].map(|name| {
        json!({
            "name": name, "served": true, "storage": name == stored,
            "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        })
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced", "versions": versions,
            "names": {"plural": "boats", "singular": "boat", "kind": "Boat"},
        },
    })
}

/// Three boats that are stored in `v1alpha1`, of which two have `v1` as the version to be stored.
fn with_boats(bench: &mut Bench) {
    bench.create(DEFINITIONS, definition("v1alpha1"));
    for name in ["a", "b", "c"] {
        bench.create(OLD, json!({"apiVersion": "example.org/v1alpha1", "kind": "Boat", "metadata": {"name": name}, "sails": 2}));
    }
    let versions = definition("v1")["spec"]["versions"].clone();
    let patch = json!({"spec": {"versions": versions}}).to_string();
    bench.patch("merge-patch+json", DEFINITION, &patch).ok();
    bench.patch("merge-patch+json", &format!("{OLD}/c"), r#"{"sails":3}"#).ok();
}

/// Takes the next step, as the server does. Says what it was.
fn go_on(bench: &mut Bench, now: Tick) -> Option<String> {
    let next = bench.api.next_migration().unwrap()?;
    let (migration, definition) = (&next.migration, next.definition.as_deref());
    let name = migration.metadata.name.clone().unwrap();
    let status = format!("{MIGRATIONS}/{name}/status");
    let put = |bench: &mut Bench, target: &str, object: Vec<u8>| {
        bench.call("PUT", target, &String::from_utf8(object).unwrap()).ok()
    };
    let (end, said) = match next.step {
        MigrationStep::Start { revision } => {
            if let Some(definition) = definition {
                let said = definition_migrating(definition, migration, now);
                put(bench, &format!("{DEFINITION}/status"), said.to_json());
            }
            put(bench, &status, started(migration, revision, now).to_json());
            return Some(format!("{name} starts"));
        }
        MigrationStep::Rewrite(objects) => {
            let mut said = format!("{name} writes");
            for object in objects {
                let patch = String::from_utf8(object.patch).unwrap();
                bench.patch("merge-patch+json", &object.path, &patch).ok();
                said.push(' ');
                said.push_str(&object.path);
            }
            (MigrationEnd::Succeeded, said)
        }
        MigrationStep::NoResource => {
            (MigrationEnd::Failed("resource not found".to_owned()), format!("{name} fails"))
        }
    };
    if let Some(definition) = definition {
        let said = definition_migrated(definition, &end, now);
        put(bench, &format!("{DEFINITION}/status"), said.to_json());
    }
    put(bench, &status, ended(migration, &end, now).to_json());
    Some(said)
}

fn conditions(object: &Value, type_: Option<&str>) -> Vec<String> {
    let all = object["status"]["conditions"].as_array().unwrap().iter();
    let wanted = all.filter(|one| type_.is_none_or(|type_| one["type"] == type_));
    wanted
        .map(|one| {
            let texts =
                ["type", "status", "reason", "message"].map(|key| one[key].as_str().unwrap());
            texts.join(" ")
        })
        .collect()
}

#[test]
fn objects_are_written_anew_and_the_old_version_may_go() {
    let mut bench = Bench::new();
    with_boats(&mut bench);
    let before = bench.get(&format!("{OLD}/a"));
    let made = bench.create(MIGRATIONS, migration("boats", "example.org", "boats"));
    assert_eq!(made["status"], json!({}));
    assert_eq!(go_on(&mut bench, START).unwrap(), "boats starts");
    let running = bench.get(&format!("{MIGRATIONS}/boats"));
    assert_eq!(
        conditions(&running, None),
        ["Running True MigrationRunning The migration is running"]
    );
    assert!(running["status"]["resourceVersion"].is_string());
    assert_eq!(
        conditions(&bench.get(DEFINITION), Some("StorageMigrating")),
        ["StorageMigrating True MigrationRunning Migration boats is running"]
    );
    assert_eq!(
        go_on(&mut bench, START).unwrap(),
        format!("boats writes {OLD}/a {OLD}/b"),
        "c was written in v1 by its own change"
    );
    assert_eq!(go_on(&mut bench, START), None);
    let after = bench.get(&format!("{OLD}/a"));
    assert_ne!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    assert_eq!(after["metadata"]["managedFields"], before["metadata"]["managedFields"]);
    assert_eq!(after["sails"], before["sails"]);
    let over = bench.get(&format!("{MIGRATIONS}/boats"));
    assert_eq!(
        conditions(&over, None),
        [
            "Running False MigrationCompleted Migration completed",
            "Succeeded True StorageVersionMigrationSucceeded "
        ]
    );
    let definition = bench.get(DEFINITION);
    assert_eq!(definition["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(
        conditions(&definition, Some("StorageMigrating")),
        [
            "StorageMigrating False MigrationSucceeded The migration has succeeded and the stored versions have been updated"
        ]
    );
    // so the old version may leave the definition
    let versions = json!([definition["spec"]["versions"][1]]);
    let patch = json!({"spec": {"versions": versions}}).to_string();
    bench.patch("merge-patch+json", DEFINITION, &patch).ok();
    let list = bench.get("/apis/example.org/v1/namespaces/default/boats");
    assert_eq!(list["items"].as_array().unwrap().len(), 3);
}

/// It may have got another version to be stored.
#[test]
fn a_definition_that_changes_in_between_keeps_its_stored_versions() {
    let mut bench = Bench::new();
    with_boats(&mut bench);
    bench.create(MIGRATIONS, migration("boats", "example.org", "boats"));
    go_on(&mut bench, START).unwrap();
    let patch = r#"{"spec":{"names":{"shortNames":["bt"]}}}"#;
    bench.patch("merge-patch+json", DEFINITION, patch).ok();
    go_on(&mut bench, START).unwrap();
    let definition = bench.get(DEFINITION);
    assert_eq!(definition["status"]["storedVersions"], json!(["v1alpha1", "v1"]));
    let said = conditions(&definition, Some("StorageMigrating"));
    assert!(said[0].ends_with("have not been updated due to a generation mismatch"), "{said:?}");
}

#[test]
fn one_runs_at_a_time_and_one_without_a_resource_fails() {
    let mut bench = Bench::new();
    bench.create(MIGRATIONS, migration("z-secrets", "", "secrets"));
    bench.pass(1);
    bench.create(MIGRATIONS, migration("a-ships", "example.org", "ships"));
    let mut steps = Vec::new();
    while let Some(step) = go_on(&mut bench, START) {
        steps.push(step);
    }
    assert_eq!(steps, ["z-secrets starts", "z-secrets writes", "a-ships fails"]);
    assert_eq!(
        conditions(&bench.get(&format!("{MIGRATIONS}/a-ships")), Some("Failed")),
        ["Failed True StorageVersionMigrationFailed resource not found"]
    );
}

/// An engine that ended in the middle goes on: nothing of it is lost, nothing said twice.
#[test]
fn a_step_may_be_taken_twice() {
    let mut bench = Bench::new();
    with_boats(&mut bench);
    bench.create(MIGRATIONS, migration("boats", "example.org", "boats"));
    go_on(&mut bench, START).unwrap();
    let next = bench.api.next_migration().unwrap().unwrap();
    let definition = next.definition.unwrap();
    let said = definition_migrated(&definition, &MigrationEnd::Succeeded, START);
    let body = String::from_utf8(said.to_json()).unwrap();
    bench.call("PUT", &format!("{DEFINITION}/status"), &body).ok();
    // here the engine ended
    go_on(&mut bench, START).unwrap();
    assert_eq!(go_on(&mut bench, START), None);
    assert_eq!(bench.get(DEFINITION)["status"]["storedVersions"], json!(["v1"]));
}

#[test]
fn mistakes_are_named() {
    let mut bench = Bench::new();
    let create =
        |bench: &mut Bench, object: Value| bench.call("POST", MIGRATIONS, &object.to_string());
    let made = create(&mut bench, migration("right", "example.org", "boats")).ok();
    let status = |bench: &mut Bench, status: Value| {
        let mut changed = made.clone();
        changed["status"] = status;
        changed["metadata"]["resourceVersion"] = Value::Null;
        let newest = bench.get(&format!("{MIGRATIONS}/right"));
        changed["metadata"]["resourceVersion"] = newest["metadata"]["resourceVersion"].clone();
        bench.call("PUT", &format!("{MIGRATIONS}/right/status"), &changed.to_string())
    };
    let condition = |type_: &str, status: &str| {
        json!({"type": type_, "status": status, "reason": "Test", "message": "",
               "lastTransitionTime": "2026-11-18T11:06:40Z"})
    };
    let mut changed = made.clone();
    changed["spec"]["resource"]["resource"] = json!("ships");
    let replies: Vec<Reply> = vec![
        create(&mut bench, migration("a", "example.org", "")),
        create(&mut bench, migration("a", "No Group", "Boats")),
        create(&mut bench, json!({"metadata": {"name": "a"}})),
        bench.call("PUT", &format!("{MIGRATIONS}/right"), &changed.to_string()),
        status(&mut bench, json!({"resourceVersion": "x"})),
        status(
            &mut bench,
            json!({"conditions": [condition("Succeeded", "True"), condition("Running", "True")]}),
        ),
        status(
            &mut bench,
            json!({"conditions": [condition("Succeeded", "Perhaps"), condition("Succeeded", "True")]}),
        ),
    ];
    expect![[r#"
        422 Invalid: StorageVersionMigration.storagemigration.k8s.io "a" is invalid: spec.resource.resource: Required value: resource is required to be set
        422 Invalid: StorageVersionMigration.storagemigration.k8s.io "a" is invalid: [spec.resource.resource: Invalid value: "Boats": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?'), spec.resource.group: Invalid value: "No Group": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')]
        422 Invalid: StorageVersionMigration.storagemigration.k8s.io "a" is invalid: spec.resource.resource: Required value: resource is required to be set
        422 Invalid: StorageVersionMigration.storagemigration.k8s.io "right" is invalid: spec: Invalid value: {"resource":{"group":"example.org","resource":"ships"}}: field is immutable
        422 Invalid: StorageVersionMigration.storagemigration.k8s.io "right" is invalid: status.resourceVersion: Invalid value: "x": must be a number
        422 Invalid: StorageVersionMigration.storagemigration.k8s.io "right" is invalid: status.conditions: Invalid value: [{"lastTransitionTime":"2026-11-18T11:06:40Z","message":"","reason":"Test","status":"True","type":"Succeeded"},{"lastTransitionTime":"2026-11-18T11:06:40Z","message":"","reason":"Test","status":"True","type":"Running"}]: Running condition cannot be true when success condition is true
        422 Invalid: StorageVersionMigration.storagemigration.k8s.io "right" is invalid: [status.conditions[0].status: Unsupported value: "Perhaps": supported values: "False", "True", "Unknown", status.conditions[1].type: Duplicate value: "Succeeded"]"#]].assert_eq(&texts(replies));
    let good = json!({"resourceVersion": "7", "conditions": [condition("Failed", "True")]});
    status(&mut bench, good).ok();
    let replies = vec![
        status(
            &mut bench,
            json!({"resourceVersion": "8", "conditions": [condition("Failed", "True")]}),
        ),
        status(&mut bench, json!({"resourceVersion": "7"})),
    ];
    expect![[r#"
        422 Invalid: StorageVersionMigration.storagemigration.k8s.io "right" is invalid: status.resourceVersion: Invalid value: "8": field is immutable
        422 Invalid: StorageVersionMigration.storagemigration.k8s.io "right" is invalid: status.conditions: Invalid value: []: Failed condition cannot be set to false once it is true"#]].assert_eq(&texts(replies));
}
