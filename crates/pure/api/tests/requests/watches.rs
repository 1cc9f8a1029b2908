//! watch: P6. What a client that lists and watches sees is what the store holds.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rekindle_store::StoreLimits;
use serde_json::{Value, json};

use crate::harness::{Bench, CONFIG_MAPS, PODS, Reply, START, config_map, drain, events, pod};

fn revision(bench: &Bench) -> String {
    bench.api.store().revision().to_string()
}

#[test]
fn changes_after_a_revision_come_in_order() {
    let mut bench = Bench::new();
    bench.create(CONFIG_MAPS, config_map("before"));
    let mut watch =
        bench.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", revision(&bench)));
    assert!(drain(&mut watch).is_empty());
    bench.create(CONFIG_MAPS, config_map("a"));
    bench.patch("merge-patch+json", &format!("{CONFIG_MAPS}/a"), r#"{"data":{"b":"2"}}"#).ok();
    bench.call("DELETE", &format!("{CONFIG_MAPS}/before"), "").ok();
    let seen = events(&mut watch);
    let texts: Vec<_> = seen
        .iter()
        .map(|e| {
            format!(
                "{} {}",
                e["type"].as_str().unwrap(),
                e["object"]["metadata"]["name"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(texts, ["ADDED a", "MODIFIED a", "DELETED before"]);
    assert_eq!(
        seen[2]["object"]["metadata"]["resourceVersion"],
        revision(&bench),
        "a deletion has its own revision"
    );
    assert_eq!(seen[2]["object"]["data"]["a"], "1", "and shows the last state");
}

#[test]
fn without_a_revision_the_state_comes_first() {
    let mut bench = Bench::new();
    bench.create(CONFIG_MAPS, config_map("a"));
    for query in ["watch=true", "watch=true&resourceVersion=0"] {
        let mut watch = bench.watch(&format!("{CONFIG_MAPS}?{query}"));
        assert_eq!(drain(&mut watch), ["ADDED a", "ADDED kube-root-ca.crt"]);
    }
}

#[test]
fn a_streamed_list_ends_with_its_bookmark() {
    let mut bench = Bench::new();
    bench.create(CONFIG_MAPS, config_map("a"));
    let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = bench.watch(&format!("{CONFIG_MAPS}?{query}"));
    let seen = events(&mut watch);
    assert_eq!(seen.len(), 3);
    let mark = &seen[2];
    assert_eq!(mark["type"], "BOOKMARK");
    assert_eq!(
        mark["object"],
        json!({
            "kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {"resourceVersion": revision(&bench), "annotations": {"k8s.io/initial-events-end": "true"}},
        })
    );
    bench.create(CONFIG_MAPS, config_map("b"));
    assert_eq!(drain(&mut watch), ["ADDED b"]);
    let mut changes_only = bench.watch(&format!(
        "{CONFIG_MAPS}?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
    ));
    assert!(drain(&mut changes_only).is_empty());
}

#[test]
fn bookmarks_tell_how_far_a_quiet_watch_is() {
    let mut bench = Bench::new();
    let from = revision(&bench);
    let mut watch =
        bench.watch(&format!("{PODS}?watch=1&resourceVersion={from}&allowWatchBookmarks=true"));
    let mut plain = bench.watch(&format!("{PODS}?watch=1&resourceVersion={from}"));
    assert!(watch.bookmark().is_none(), "nothing new to say");
    bench.create(CONFIG_MAPS, config_map("elsewhere"));
    assert!(drain(&mut watch).is_empty());
    let mark: Value = serde_json::from_slice(&watch.bookmark().unwrap()).unwrap();
    assert_eq!(
        (&mark["type"], &mark["object"]["metadata"]["resourceVersion"]),
        (&json!("BOOKMARK"), &json!(revision(&bench)))
    );
    assert!(watch.bookmark().is_none(), "said already");
    assert!(plain.bookmark().is_none(), "not asked for");
    bench.create(PODS, pod("p"));
    assert!(
        watch.bookmark().is_none_or(|line| {
            let mark: Value = serde_json::from_slice(&line).unwrap();
            mark["object"]["metadata"]["resourceVersion"].as_str().unwrap()
                < revision(&bench).as_str()
        }),
        "never past an event that was not sent"
    );
    assert_eq!(drain(&mut watch), ["ADDED p"]);
    assert!(watch.bookmark().is_none(), "the event said as much");
}

#[test]
fn a_selector_turns_changes_into_arrivals_and_departures() {
    let mut bench = Bench::new();
    let mut labels = bench.watch(&format!(
        "{CONFIG_MAPS}?watch=1&resourceVersion={}&labelSelector=on%3Dyes",
        revision(&bench)
    ));
    let target = format!("{CONFIG_MAPS}/a");
    bench.create(CONFIG_MAPS, config_map("a"));
    for value in ["\"yes\"", "\"yes\"", "\"no\"", "\"yes\""] {
        let patch = format!(
            r#"{{"metadata":{{"labels":{{"on":{value},"x":"{}"}}}}}}"#,
            bench.api.store().revision()
        );
        bench.patch("merge-patch+json", &target, &patch).ok();
    }
    bench.call("DELETE", &target, "").ok();
    let seen = events(&mut labels);
    let kinds: Vec<_> = seen.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]);
    assert_eq!(seen[2]["object"]["metadata"]["labels"]["on"], "yes", "as the client knew it");

    let mut phase = bench.watch(&format!(
        "{PODS}?watch=1&resourceVersion={}&fieldSelector=spec.nodeName%3Dn1",
        revision(&bench)
    ));
    bench.create(PODS, pod("p"));
    bench
        .call(
            "POST",
            &format!("{PODS}/p/binding"),
            r#"{"metadata":{"name":"p"},"target":{"name":"n1"}}"#,
        )
        .ok();
    assert_eq!(drain(&mut phase), ["ADDED p"]);
}

#[test]
fn a_watch_of_one_object_sees_no_other() {
    let mut bench = Bench::new();
    let mut one = bench.watch(&format!(
        "{CONFIG_MAPS}?watch=1&resourceVersion={}&fieldSelector=metadata.name%3Dweb",
        revision(&bench)
    ));
    for name in ["web-1", "we", "web"] {
        bench.create(CONFIG_MAPS, config_map(name));
    }
    assert_eq!(drain(&mut one), ["ADDED web"]);
}

#[test]
fn a_revision_that_is_gone_or_never_was_ends_the_watch_with_an_error_event() {
    let mut bench =
        Bench::with_limits(StoreLimits { history_events_max: 4, ..StoreLimits::default() });
    for index in 0..10 {
        bench.create(CONFIG_MAPS, config_map(&format!("m{index}")));
    }
    for (from, code) in [("1", 410), ("99999", 504)] {
        let mut watch = bench.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}"));
        let seen = events(&mut watch);
        assert_eq!(
            (seen.len(), &seen[0]["type"], &seen[0]["object"]["code"]),
            (1, &json!("ERROR"), &json!(code))
        );
        assert!(watch.is_ended());
    }
    // one that falls behind is told so, too
    let mut slow =
        bench.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", revision(&bench)));
    for index in 10..40 {
        bench.create(CONFIG_MAPS, config_map(&format!("m{index}")));
    }
    let seen = events(&mut slow);
    assert_eq!(seen.last().unwrap()["object"]["reason"], "Expired");
    assert!(slow.is_ended());
}

#[test]
fn watches_that_make_no_sense_are_refused() {
    let mut bench = Bench::new();
    let texts: Vec<String> = [
        "sendInitialEvents=true",
        "resourceVersionMatch=NotOlderThan",
        "sendInitialEvents=true&resourceVersionMatch=Exact",
        "resourceVersion=x",
        "labelSelector=-",
    ]
    .iter()
    .map(|query| bench.call("GET", &format!("{CONFIG_MAPS}?watch=1&{query}"), "").text())
    .collect();
    expect_test::expect![[r#"
        422 Invalid: ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan
        422 Invalid: ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided
        422 Invalid: ListOptions.meta.k8s.io "" is invalid: [resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan, resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"]
        500 : invalid resource version "x": it must be a whole number
        400 BadRequest: unable to parse requirement: key: Invalid value: "-": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#]].assert_eq(&texts.join("\n"));
}

#[test]
fn tables_are_watched_as_tables() {
    let mut bench = Bench::new();
    bench.create(CONFIG_MAPS, config_map("a"));
    let mut request =
        bench.request("GET", &format!("{CONFIG_MAPS}?watch=1&fieldSelector=metadata.name%3Da"), "");
    request.accept = "application/json;as=Table;v=v1;g=meta.k8s.io".to_owned();
    let rekindle_api::RequestOutcome::Watch(mut watch) = bench.api.handle(&request) else {
        panic!("a watch")
    };
    let line = watch.stream.try_next(START).unwrap();
    let event: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(
        (&event["object"]["kind"], &event["object"]["rows"][0]["cells"][0]),
        (&json!("Table"), &json!("a"))
    );
}

/// What somebody does to one of a few ConfigMaps.
#[derive(Clone, Debug)]
enum Step {
    Put { name: usize, on: bool, value: u8 },
    Delete { name: usize },
    Reconnect,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0usize..4, any::<bool>(), any::<u8>()).prop_map(|(name, on, value)| Step::Put { name, on, value }),
        2 => (0usize..4).prop_map(|name| Step::Delete { name }),
        1 => Just(Step::Reconnect),
    ];
    proptest::collection::vec(step, 0..40)
}

/// A client's cache, as an informer keeps it.
#[derive(Default)]
struct View {
    objects: BTreeMap<String, Value>,
    last: u64,
}

impl View {
    fn apply(&mut self, event: &Value) {
        let object = event["object"].clone();
        let revision: u64 =
            object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert!(revision > self.last, "events are ordered and unique");
        self.last = revision;
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match event["type"].as_str().unwrap() {
            "ADDED" => assert!(self.objects.insert(name, object).is_none(), "added once"),
            "MODIFIED" => {
                assert!(self.objects.insert(name, object).is_some(), "modified what is there")
            }
            "DELETED" => assert!(self.objects.remove(&name).is_some(), "deleted what is there"),
            "BOOKMARK" => {}
            other => panic!("{other}"),
        }
    }
}

/// An item of a list, as a watch shows it: with its type.
fn typed(item: &Value) -> Value {
    let mut object = item.clone();
    object["apiVersion"] = "v1".into();
    object["kind"] = "ConfigMap".into();
    object
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn list_and_watch_equal_the_store(steps in steps(), selected in any::<bool>()) {
        let mut bench = Bench::new();
        let selector = if selected { "labelSelector=on%3Dtrue" } else { "x" };
        let start = revision(&bench);
        let mut view = View::default();
        for object in bench.get(&format!("{CONFIG_MAPS}?{selector}"))["items"].as_array().unwrap() {
            view.objects.insert(object["metadata"]["name"].as_str().unwrap().to_owned(), typed(object));
        }
        let open = |bench: &Bench, from: &str| bench.watch(&format!("{CONFIG_MAPS}?watch=1&{selector}&allowWatchBookmarks=true&resourceVersion={from}"));
        let mut watch = open(&bench, &start);
        view.last = start.parse().unwrap();
        for step in steps {
            match step {
                Step::Put { name, on, value } => {
                    let body = json!({"metadata": {"name": format!("m{name}"), "labels": {"on": on.to_string()}}, "data": {"v": value.to_string()}}).to_string();
                    if bench.call("PUT", &format!("{CONFIG_MAPS}/m{name}"), &body).code() == 404 {
                        bench.call("POST", CONFIG_MAPS, &body).ok();
                    }
                }
                Step::Delete { name } => { bench.call("DELETE", &format!("{CONFIG_MAPS}/m{name}"), ""); }
                Step::Reconnect => {
                    for event in events(&mut watch) { view.apply(&event); }
                    if let Some(line) = watch.bookmark() { view.apply(&serde_json::from_slice(&line).unwrap()); }
                    watch = open(&bench, &view.last.to_string());
                }
            }
        }
        for event in events(&mut watch) { view.apply(&event); }
        let stored = bench.get(&format!("{CONFIG_MAPS}?{selector}"));
        let stored: BTreeMap<String, Value> = stored["items"].as_array().unwrap().iter()
            .map(|object| (object["metadata"]["name"].as_str().unwrap().to_owned(), typed(object))).collect();
        prop_assert_eq!(view.objects, stored);
    }
}

#[test]
fn watchers_of_one_change_share_its_bytes() {
    let mut bench = Bench::new();
    let from = revision(&bench);
    let mut one = bench.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}"));
    let mut other = bench.watch(&format!("/api/v1/configmaps?watch=1&resourceVersion={from}"));
    let _ = Reply(bench.call("POST", CONFIG_MAPS, &config_map("a").to_string()).0).ok();
    bench.call("DELETE", &format!("{CONFIG_MAPS}/a"), "").ok();
    for _ in 0..2 {
        let (first, second) = (one.try_next(START).unwrap(), other.try_next(START).unwrap());
        assert_eq!(first.as_ptr(), second.as_ptr());
    }
}
