//! Who may take a backup, and what a look at all stored objects finds.

use bytes::Bytes;
use rekindle_api::RequestOutcome;
use rekindle_kinds::identity::{ClientIdentity, UserInfo};
use rekindle_store::backup::{BackupDecoder, BackupPart};
use rekindle_store::{Mutation, WritePrecondition};
use serde_json::{Value, json};

use crate::harness::{Bench, CONFIG_MAPS, START, config_map};

const GROUP: &str = "/apis/rbac.authorization.k8s.io/v1";

/// The parts of the backup that is answered, or the code of the refusal.
fn ask(bench: &Bench, method: &str) -> Result<Vec<BackupPart>, u16> {
    match bench.api.handle(&bench.request(method, "/backup", "")) {
        RequestOutcome::Backup => {}
        RequestOutcome::Answer(answer) => return Err(answer.code.as_u16()),
        _ => panic!("neither a backup nor a refusal"),
    }
    let stream = bench.api.store().backup(START.as_micros()).unwrap();
    let (mut decoder, mut parts) = (BackupDecoder::default(), Vec::new());
    for chunk in stream {
        decoder.push(&chunk.unwrap());
        while let Some(part) = decoder.next_part().unwrap() {
            parts.push(part);
        }
    }
    decoder.finish().unwrap();
    Ok(parts)
}

#[test]
fn a_backup_has_every_object_and_is_for_administrators() {
    let mut bench = Bench::new();
    bench.create(CONFIG_MAPS, config_map("one"));
    let parts = ask(&bench, "GET").unwrap();
    let BackupPart::Header(header) = &parts[0] else { panic!("{:?}", parts[0]) };
    assert_eq!(header.revision, bench.api.store().revision());
    assert_eq!(header.created_at_micros, START.as_micros());
    assert_eq!(header.objects, parts.len() as u64 - 1);
    assert_eq!(parts.len() - 1, bench.api.store().count("/"));
    assert_eq!(ask(&bench, "POST").unwrap_err(), 405);

    bench.identity = ClientIdentity::Anonymous;
    assert_eq!(ask(&bench, "GET").unwrap_err(), 401);
    bench.identity = ClientIdentity::User(UserInfo::internal("tester"));
    let bob = UserInfo::new("bob", []);
    let view = json!({
        "metadata": {"name": "bob-sees-all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "User", "name": "bob"}],
    });
    bench.create(&format!("{GROUP}/clusterrolebindings"), view.clone());
    bench.as_user(bob, |bench| assert_eq!(ask(bench, "GET").unwrap_err(), 403));
    // a path, by whatever rule, shows no object that bob may not get
    let of_path = |path: &str| json!({"verbs": ["get"], "nonResourceURLs": [path]});
    let every_object = json!({"verbs": ["get"], "apiGroups": ["*"], "resources": ["*"]});
    let secrets = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]});
    for (number, (rules, expected)) in [
        (json!([of_path("*")]), Some(403)),
        (json!([of_path("/backup")]), Some(403)),
        (json!([of_path("/backup"), secrets]), Some(403)),
        (json!([every_object]), Some(403)),
        (json!([of_path("/backup"), every_object]), None),
        (json!([of_path("*"), every_object]), None),
    ]
    .into_iter()
    .enumerate()
    {
        let (user, role) = (UserInfo::new(format!("user-{number}"), []), format!("role-{number}"));
        let rules = json!({"metadata": {"name": role}, "rules": rules});
        bench.create(&format!("{GROUP}/clusterroles"), rules);
        let mut binding = view.clone();
        binding["metadata"]["name"] = role.clone().into();
        binding["roleRef"]["name"] = role.into();
        binding["subjects"][0]["name"] = user.name.clone().into();
        bench.create(&format!("{GROUP}/clusterrolebindings"), binding);
        bench.as_user(user, |bench| assert_eq!(ask(bench, "GET").err(), expected, "{number}"));
    }
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    })
}

/// Stores bytes at a key, as a bug or a broken disk would.
fn store(bench: &mut Bench, key: &str, encode: impl Fn(&str) -> String) {
    let value = |revision: rekindle_store::Revision| Bytes::from(encode(&revision.to_string()));
    let store = bench.api.store();
    let pending = store.write(key, WritePrecondition::Any, Mutation::Put(&value)).unwrap();
    bench.committer.commit_pending().unwrap();
    pending.try_get().unwrap().unwrap();
}

fn text(kind: (&str, &str), namespace: &str, name: &str, revision: &str) -> String {
    let (api_version, kind) = kind;
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "resourceVersion": revision},
    })
    .to_string()
}

#[test]
fn stored_objects_that_are_not_what_their_keys_say_are_found() {
    let mut bench = Bench::new();
    bench.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition());
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    bench.create(widgets, widget);
    bench.create(CONFIG_MAPS, config_map("good"));
    assert_eq!(bench.api.stored_faults(), [], "all that the API wrote itself is good");

    let map = ("v1", "ConfigMap");
    store(&mut bench, "/configmaps/default/a", |_| "{\"half".to_owned());
    store(&mut bench, "/configmaps/default/b", |r| text(("v1", "Secret"), "default", "b", r));
    store(&mut bench, "/configmaps/default/c", |r| text(map, "default", "other", r));
    store(&mut bench, "/configmaps/default/d", |r| text(map, "kube-system", "d", r));
    store(&mut bench, "/configmaps/default/e", |_| text(map, "default", "e", "1"));
    store(&mut bench, "/configmaps/default/f", |r| {
        text(map, "default", "f", r).replace("\"metadata\"", "\"data\":7,\"metadata\"")
    });
    store(&mut bench, "/gadgets.example.com/default/g", |r| {
        text(("example.com/v1", "Gadget"), "default", "g", r)
    });
    store(&mut bench, "/widgets.example.com/default/h", |r| {
        text(("example.com/v1", "Gadget"), "default", "h", r)
    });
    store(&mut bench, "adrift", |_| String::new());
    let found: Vec<String> = bench
        .api
        .stored_faults()
        .into_iter()
        .map(|fault| format!("{} {}", fault.key, fault.problem))
        .collect();
    let revision = bench.api.store().get("/configmaps/default/e").unwrap().revision;
    let with_revision =
        format!("/configmaps/default/e has resourceVersion 1, stored at {revision}");
    for (found, expected) in found.iter().zip([
        "/configmaps/default/a cannot be read: ",
        "/configmaps/default/b is of kind Secret in v1, not ConfigMap",
        "/configmaps/default/c is named \"default/other\"",
        "/configmaps/default/d is named \"kube-system/d\"",
        &with_revision,
        "/configmaps/default/f cannot be read as ConfigMap: ",
        "/gadgets.example.com/default/g no kind has objects there",
        "/widgets.example.com/default/h is of kind Gadget in example.com/v1, not Widget.example.com",
        "adrift no kind has objects there",
    ]) {
        assert!(found.starts_with(expected), "expected {expected:?}, found {found:?}");
    }
    assert_eq!(found.len(), 9, "{found:?}");
}
