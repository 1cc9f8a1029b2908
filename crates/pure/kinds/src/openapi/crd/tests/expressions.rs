//! The rules of the definitions (`x-kubernetes-validations`), evaluated as an API server does it,
//! by another implementation of CEL than that server's: what they refuse is what our own validation
//! refuses, at the same fields, and nothing else.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use cel::{Context, Program, Value as CelValue};
use rekindle_types::v1alpha1::{PodRestart, RestartLadder, Rung};
use rekindle_types::validation::field_error::FieldError;
use serde_json::{Value, json};

use super::super::*;
use crate::registry::resource::ApiKind;
use crate::registry::strategy::SubresourceStrategy;

/// The schema of one of our kinds.
fn schema(plural: &str) -> Value {
    let name = format!("{plural}.rekindle.dev");
    let all = definitions(&crate::all(), rekindle_types::v1alpha1::GROUP);
    let definition = all.into_iter().find(|found| found["metadata"]["name"] == name).unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// Every expression of a schema with its path.
fn expressions(schema: &Value, path: &str, found: &mut Vec<(String, String)>) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        found.push((path.to_owned(), rule["rule"].as_str().unwrap().to_owned()));
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        expressions(property, &format!("{path}.{name}"), found);
    }
    for (key, path) in
        [("items", format!("{path}[]")), ("additionalProperties", format!("{path}.*"))]
    {
        if schema[key].is_object() {
            expressions(&schema[key], &path, found);
        }
    }
}

thread_local! {
    /// Each rule is read once: reading takes longer than evaluating.
    static PROGRAMS: RefCell<BTreeMap<String, Rc<Program>>> = RefCell::default();
}

fn compiled(rule: &str) -> Rc<Program> {
    let compile = || {
        let program = Program::compile(rule);
        Rc::new(program.unwrap_or_else(|error| panic!("{rule}: {error}")))
    };
    PROGRAMS.with_borrow_mut(|all| Rc::clone(all.entry(rule.to_owned()).or_insert_with(compile)))
}

/// Whether a rule is kept. One that speaks of what was there before is asked when there was
/// something.
fn is_kept(rule: &str, now: &Value, before: Option<&Value>) -> bool {
    let mut context = Context::default();
    context.add_variable("self", now.clone()).unwrap();
    match before {
        Some(before) => context.add_variable("oldSelf", before.clone()).unwrap(),
        None if rule.contains("oldSelf") => return true,
        None => {}
    }
    match compiled(rule).execute(&context) {
        Ok(CelValue::Bool(kept)) => kept,
        other => panic!("{rule} of {now}: {other:?}"),
    }
}

/// The fields at which the rules of a schema refuse a value. Of what is not there nothing is asked.
fn refused(
    schema: &Value,
    path: &str,
    now: &Value,
    before: Option<&Value>,
    at: &mut BTreeSet<String>,
) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        if !is_kept(rule["rule"].as_str().unwrap(), now, before) {
            at.insert(format!("{path}{}", rule["fieldPath"].as_str().unwrap_or_default()));
        }
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(now) = now.get(name) {
            let before = before.and_then(|before| before.get(name));
            refused(property, &format!("{path}.{name}"), now, before, at);
        }
    }
    for (index, now) in now.as_array().into_iter().flatten().enumerate() {
        // no rule in a list of ours speaks of what was there before
        refused(&schema["items"], &format!("{path}[{index}]"), now, None, at);
    }
}

fn by_rules(schema: &Value, now: &Value, before: Option<&Value>) -> BTreeSet<String> {
    let mut at = BTreeSet::new();
    refused(schema, "", now, before, &mut at);
    at
}

fn by_us(errors: Vec<FieldError>) -> BTreeSet<String> {
    errors.into_iter().map(|error| format!(".{}", error.field)).collect()
}

/// Both say the same of an object.
#[track_caller]
fn agree<K: ApiKind>(schema: &Value, object: &Value) -> BTreeSet<String> {
    let typed = K::from_value(object).unwrap();
    let refused = by_rules(schema, object, None);
    assert_eq!(refused, by_us(typed.validate()), "{object}");
    refused
}

fn ladder(spec: Value) -> Value {
    let mut whole =
        json!({"selector": {"matchLabels": {"app": "web"}}, "rungs": [{"rung": "Pod"}]});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"metadata": {"name": "web"}, "spec": whole})
}

fn restart(spec: Value) -> Value {
    let mut whole = json!({"podName": "web-0"});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"metadata": {"name": "again"}, "spec": whole})
}

/// Spans that keep to the pattern, and whether they may be.
const SPANS: [(&str, bool); 20] = [
    ("10m", true),
    ("1h30m", true),
    ("1ms", true),
    ("720h", true),
    ("00720h", true),
    ("43200m", true),
    ("2592000s", true),
    ("2592000000ms", true),
    ("719h59m60s", true),
    ("0s", false),
    ("0h0m0s0ms", false),
    ("721h", false),
    ("720h1ms", false),
    ("43201m", false),
    ("2592001s", false),
    ("2592000001ms", false),
    ("700h700h", false),
    ("9999999h", false),
    ("99999999999999999999999999h", false),
    ("9999999999ms9999999999ms", false),
];

#[test]
fn every_expression_is_one_and_is_known_here() {
    let mut found = Vec::new();
    for plural in ["restartladders", "podrestarts", "restartledgers"] {
        expressions(&schema(plural), plural, &mut found);
    }
    let at: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
    // another one has to be tried below
    assert_eq!(
        at,
        [
            "restartladders.spec",
            "restartladders.spec",
            "restartladders.spec.rungs",
            "restartladders.spec.rungs[]",
            "restartladders.spec.rungs[]",
            "restartladders.spec.rungs[].avoidNodeFor",
            "restartladders.spec.selector",
            "restartladders.spec.window",
            "podrestarts.spec",
            "podrestarts.spec",
            "podrestarts.spec",
            "podrestarts.spec",
            "podrestarts.spec",
            "podrestarts.spec",
            "podrestarts.spec",
            "podrestarts.spec",
            "podrestarts.spec",
            "podrestarts.spec",
            "podrestarts.spec.avoidNodeFor",
            "podrestarts.spec.selector",
            "podrestarts.status",
        ]
    );
    for (_, rule) in &found {
        compiled(rule);
    }
}

#[test]
fn spans_are_as_long_as_ours() {
    let (ladders, restarts) = (schema("restartladders"), schema("podrestarts"));
    for (span, may_be) in SPANS {
        let window = agree::<RestartLadder>(&ladders, &ladder(json!({"window": span})));
        let rungs = json!({"rungs": [{"rung": "Reschedule", "avoidNodeFor": span}]});
        let rung = agree::<RestartLadder>(&ladders, &ladder(rungs));
        let request = json!({"rung": "Reschedule", "avoidNodeFor": span});
        let request = agree::<PodRestart>(&restarts, &restart(request));
        for refused in [window, rung, request] {
            assert_eq!(refused.is_empty(), may_be, "{span}: {refused:?}");
        }
    }
}

#[test]
fn a_request_is_for_one_pod_or_for_a_group() {
    let schema = schema("podrestarts");
    let labels = json!({"matchLabels": {"job": "train"}});
    let mut tried = BTreeSet::new();
    for pod in [None, Some("web-0")] {
        for selector in [None, Some(json!({})), Some(labels.clone())] {
            for (field, value) in [
                ("reason", "neither matters"),
                ("podUID", "1"),
                ("memberOf", "train"),
                ("containerName", "app"),
            ] {
                for rung in Rung::ALL.map(Some).into_iter().chain([None]) {
                    let mut spec = json!({field: value});
                    for (name, value) in [
                        ("podName", pod.map(|pod| json!(pod))),
                        ("selector", selector.clone()),
                        ("rung", rung.map(|rung| json!(rung))),
                    ] {
                        if let Some(value) = value {
                            spec[name] = value;
                        }
                    }
                    let object = json!({"metadata": {"name": "again"}, "spec": spec});
                    tried.extend(agree::<PodRestart>(&schema, &object));
                }
            }
        }
    }
    let fields = ["containerName", "memberOf", "podName", "podUID", "rung", "selector"];
    assert_eq!(tried, fields.map(|field| format!(".spec.{field}")).into());
}

#[test]
fn only_a_group_is_of_a_workload() {
    let schema = schema("podrestarts");
    let workload = json!({"name": "keep/job/train", "uid": "1"});
    for (spec, may_be) in [
        (json!({"podName": "web-0", "workload": workload}), false),
        (json!({"selector": {"matchLabels": {"job": "train"}}, "workload": workload}), true),
    ] {
        let object = json!({"metadata": {"name": "again"}, "spec": spec});
        assert_eq!(agree::<PodRestart>(&schema, &object).is_empty(), may_be, "{object}");
    }
}

#[test]
fn a_ladder_for_groups_has_no_rollback_and_fails_no_pods() {
    let schema = schema("restartladders");
    for scope in [None, Some("Pod"), Some("Group")] {
        for rung in Rung::ALL {
            for on_exhausted in [None, Some("Hold"), Some("Fail")] {
                let mut spec = json!({"rungs": [{"rung": rung}]});
                for (field, value) in [("scope", scope), ("onExhausted", on_exhausted)] {
                    if let Some(value) = value {
                        spec[field] = json!(value);
                    }
                }
                let object = ladder(spec);
                let typed: RestartLadder = serde_json::from_value(object.clone()).unwrap();
                let may_not = rung == Rung::Rollback || on_exhausted == Some("Fail");
                let is_refused = scope == Some("Group") && may_not;
                assert_eq!(!typed.validate().is_empty(), is_refused, "{object}");
                // a rule names the list, ours the rung in it
                assert_eq!(!by_rules(&schema, &object, None).is_empty(), is_refused, "{object}");
            }
        }
    }
}

#[test]
fn a_selector_selects_something() {
    let schema = schema("restartladders");
    let exists = json!([{"key": "app", "operator": "Exists"}]);
    for (selector, may_be) in [
        (json!({"matchLabels": {"app": "web"}}), true),
        (json!({"matchExpressions": exists}), true),
        (json!({"matchLabels": {}, "matchExpressions": exists}), true),
        (json!({}), false),
        (json!({"matchLabels": {}}), false),
        (json!({"matchExpressions": []}), false),
        (json!({"matchLabels": {}, "matchExpressions": []}), false),
    ] {
        let refused = agree::<RestartLadder>(&schema, &ladder(json!({"selector": selector})));
        assert_eq!(refused.is_empty(), may_be, "{selector}");
    }
}

/// All lists of rungs of which none stands twice.
fn lists(of: &[Rung]) -> Vec<Vec<Rung>> {
    let mut all = vec![vec![]];
    for rung in of {
        let others: Vec<Rung> = of.iter().copied().filter(|other| other != rung).collect();
        all.extend(lists(&others).into_iter().map(|rest| [vec![*rung], rest].concat()));
    }
    all
}

#[test]
fn rungs_are_in_order_in_every_list_of_them() {
    let schema = schema("restartladders");
    for list in lists(&Rung::ALL).iter().filter(|list| !list.is_empty()) {
        let rungs: Vec<Value> = list.iter().map(|rung| json!({"rung": rung})).collect();
        let object = ladder(json!({"rungs": rungs}));
        let typed: RestartLadder = serde_json::from_value(object.clone()).unwrap();
        // ours names the rung that stands in the wrong place, a rule the list
        let ours_refuse = !typed.validate().is_empty();
        let refused = by_rules(&schema, &object, None);
        assert_eq!(!refused.is_empty(), ours_refuse, "{list:?}");
        assert_eq!(refused.is_empty(), list.is_sorted(), "{list:?}: {refused:?}");
    }
}

#[test]
fn what_belongs_to_another_rung_is_refused_at_its_field() {
    let (ladders, restarts) = (schema("restartladders"), schema("podrestarts"));
    let given = [
        ("emptyDirs", json!("Keep"), Rung::Pod),
        ("avoidNodeFor", json!("1h"), Rung::Reschedule),
        ("containerName", json!("app"), Rung::Container),
        ("fast", json!(true), Rung::Containers),
    ];
    for (field, value, belongs_to) in &given {
        for rung in Rung::ALL {
            let mut spec = json!({"rung": rung});
            spec[field] = value.clone();
            let refused = agree::<PodRestart>(&restarts, &restart(spec.clone()));
            let expected: Vec<String> =
                (rung != *belongs_to).then(|| format!(".spec.{field}")).into_iter().collect();
            assert_eq!(Vec::from_iter(refused), expected, "{rung} {field}");
            if !["containerName", "fast"].contains(field) {
                let refused = agree::<RestartLadder>(&ladders, &ladder(json!({"rungs": [spec]})));
                assert_eq!(refused.is_empty(), rung == *belongs_to, "{rung} {field}: {refused:?}");
            }
        }
        // without a rung it is the rung Pod
        let refused = agree::<PodRestart>(&restarts, &restart(json!({(*field): value})));
        assert_eq!(refused.is_empty(), *belongs_to == Rung::Pod, "{field}: {refused:?}");
    }
    let slow = json!({"rung": "Containers", "fast": true, "gracePeriodSeconds": 5});
    let refused = agree::<PodRestart>(&restarts, &restart(slow));
    assert_eq!(Vec::from_iter(refused), [".spec.fast"]);
}

#[test]
fn a_request_is_not_changed_and_stays_with_its_pod() {
    let schema = schema("podrestarts");
    let whole = restart(json!({"rung": "Pod", "reason": "stale", "gracePeriodSeconds": 5}));
    for (spec, may_be) in [
        (json!({"rung": "Pod", "reason": "stale", "gracePeriodSeconds": 5}), true),
        (json!({"rung": "Pod", "reason": "another", "gracePeriodSeconds": 5}), false),
        (json!({"rung": "Pod", "reason": "stale"}), false),
        (json!({"rung": "Containers", "reason": "stale", "gracePeriodSeconds": 5}), false),
    ] {
        let object = restart(spec);
        let refused = by_rules(&schema, &object, Some(&whole));
        let typed = |value: &Value| serde_json::from_value::<PodRestart>(value.clone()).unwrap();
        assert_eq!(refused, by_us(typed(&object).validate_update(&typed(&whole))), "{object}");
        assert_eq!(refused.is_empty(), may_be, "{object}");
    }
    let taken_up = |uid: Option<&str>| {
        let status = uid.map_or_else(|| json!({}), |uid| json!({"podUID": uid}));
        json!({"metadata": {"name": "again"}, "spec": {"podName": "web-0"}, "status": status})
    };
    for (before, now, may_be) in [
        (None, None, true),
        (None, Some("a"), true),
        (Some("a"), Some("a"), true),
        (Some("a"), Some("b"), false),
        (Some("a"), None, false),
    ] {
        let (before, now) = (taken_up(before), taken_up(now));
        let refused = by_rules(&schema, &now, Some(&before));
        let typed = |value: &Value| serde_json::from_value::<PodRestart>(value.clone()).unwrap();
        assert_eq!(refused, by_us(typed(&now).validate_part(&typed(&before))), "{now}");
        assert_eq!(refused.is_empty(), may_be, "{before} {now}");
    }
}
