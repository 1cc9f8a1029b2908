//! list: pages, selectors, revisions, and the forms of an answer. Source: "Kubernetes API Concepts"
//! in the API reference.

use expect_test::expect;
use proptest::prelude::*;
use rekindle_store::StoreLimits;
use serde_json::{Value, json};

use crate::harness::{Bench, CONFIG_MAPS, PODS, Reply, config_map, events, pod};

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Ten ConfigMaps m0..m9 with label `even`.
fn bench() -> Bench {
    let mut bench = Bench::new();
    for index in 0..10 {
        let mut map = config_map(&format!("m{index}"));
        map["metadata"]["labels"] =
            json!({"even": (index % 2 == 0).to_string(), "n": index.to_string()});
        bench.create(CONFIG_MAPS, map);
    }
    bench
}

#[test]
fn pages_are_consistent_while_others_write() {
    let mut bench = bench();
    let first = bench.get(&format!("{CONFIG_MAPS}?limit=4"));
    assert_eq!(names(&first), ["kube-root-ca.crt", "m0", "m1", "m2"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 7);
    bench.call("DELETE", &format!("{CONFIG_MAPS}/m5"), "").ok();
    bench.create(CONFIG_MAPS, config_map("m3a"));
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = bench.get(&format!("{CONFIG_MAPS}?limit=100&continue={token}"));
    assert_eq!(
        names(&second),
        ["m3", "m4", "m5", "m6", "m7", "m8", "m9"],
        "as it was at the first page"
    );
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    assert_eq!(second["metadata"]["continue"], Value::Null);
}

#[test]
fn an_expired_page_says_so_and_gives_a_token_to_go_on() {
    let mut bench =
        Bench::with_limits(StoreLimits { history_events_max: 4, ..StoreLimits::default() });
    for index in 0..4 {
        bench.create(CONFIG_MAPS, config_map(&format!("m{index}")));
    }
    let first = bench.get(&format!("{CONFIG_MAPS}?limit=2"));
    for index in 4..14 {
        bench.create(CONFIG_MAPS, config_map(&format!("m{index}")));
    }
    let token = first["metadata"]["continue"].as_str().unwrap();
    let expired = bench.call("GET", &format!("{CONFIG_MAPS}?limit=2&continue={token}"), "");
    assert_eq!((expired.code(), expired.json()["reason"].as_str()), (410, Some("Expired")));
    let token = expired.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let rest = bench.get(&format!("{CONFIG_MAPS}?continue={token}"));
    assert_eq!(
        names(&rest).first().map(String::as_str),
        Some("m1"),
        "inconsistent, from where it stopped"
    );
}

#[test]
fn selectors_choose() {
    let mut bench = bench();
    for (query, chosen) in [
        ("labelSelector=even%3Dtrue", vec!["m0", "m2", "m4", "m6", "m8"]),
        ("labelSelector=even%3Dtrue%2Cn+notin+(0,2)", vec!["m4", "m6", "m8"]),
        ("labelSelector=!even", vec!["kube-root-ca.crt"]),
        ("fieldSelector=metadata.name%3Dm3", vec!["m3"]),
        (
            "fieldSelector=metadata.name!%3Dm3&labelSelector=even%3Dfalse",
            vec!["m1", "m5", "m7", "m9"],
        ),
        ("fieldSelector=metadata.namespace%3Dother", vec![]),
        ("labelSelector=even%3Dtrue&limit=3", vec!["m0", "m2", "m4"]),
    ] {
        assert_eq!(names(&bench.get(&format!("{CONFIG_MAPS}?{query}"))), chosen, "{query}");
    }
    // the same over all namespaces
    let everywhere = bench
        .get("/api/v1/configmaps?fieldSelector=metadata.namespace%3Ddefault,metadata.name%3Dm1");
    assert_eq!(names(&everywhere), ["m1"]);
    // pages with a selector go on where the last object was
    let page = bench.get(&format!("{CONFIG_MAPS}?labelSelector=even%3Dtrue&limit=3"));
    assert_eq!(page["metadata"]["remainingItemCount"], Value::Null, "unknown with a selector");
    let token = page["metadata"]["continue"].as_str().unwrap();
    let rest = bench.get(&format!("{CONFIG_MAPS}?labelSelector=even%3Dtrue&continue={token}"));
    assert_eq!(names(&rest), ["m6", "m8"]);
    let mut on_node = pod("p");
    on_node["spec"]["nodeName"] = "n1".into();
    bench.create(PODS, on_node);
    bench.create(PODS, pod("q"));
    assert_eq!(names(&bench.get(&format!("{PODS}?fieldSelector=spec.nodeName%3Dn1"))), ["p"]);
    assert_eq!(
        names(&bench.get(&format!("{PODS}?fieldSelector=spec.nodeName%3D,status.phase%3DPending"))),
        ["q"]
    );
}

/// The store leaves out objects that an earlier list found to have other labels.
#[test]
fn a_label_that_changes_selects_anew() {
    let mut bench = bench();
    let odd = format!("{CONFIG_MAPS}?labelSelector=even%3Dfalse");
    let mut watch = bench.watch(&format!("{odd}&watch=true"));
    let first = bench.get(&odd);
    assert_eq!(names(&first), ["m1", "m3", "m5", "m7", "m9"]);
    for (name, even) in [("m2", "false"), ("m3", "true"), ("m2", "false")] {
        let labels = json!({"metadata": {"labels": {"even": even}}}).to_string();
        bench.patch("merge-patch+json", &format!("{CONFIG_MAPS}/{name}"), &labels).ok();
    }
    assert_eq!(names(&bench.get(&odd)), ["m1", "m2", "m5", "m7", "m9"]);
    let changes = events(&mut watch);
    let seen: Vec<_> = changes
        .iter()
        .map(|event| [&event["type"], &event["object"]["metadata"]["name"]].map(Value::as_str))
        .skip(5)
        .collect();
    assert_eq!(seen, [[Some("ADDED"), Some("m2")], [Some("DELETED"), Some("m3")]]);
    let before = first["metadata"]["resourceVersion"].as_str().unwrap();
    let exact = format!("{odd}&resourceVersionMatch=Exact&resourceVersion={before}");
    assert_eq!(names(&bench.get(&exact)), names(&first), "as it was");
}

#[test]
fn revisions_mean_what_the_reference_says() {
    let mut bench = bench();
    let old = bench.get(&format!("{CONFIG_MAPS}?limit=1"))["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    bench.create(CONFIG_MAPS, config_map("new"));
    let count = |bench: &mut Bench, query: String| {
        names(&bench.get(&format!("{CONFIG_MAPS}?{query}"))).len()
    };
    assert_eq!(count(&mut bench, String::new()), 12);
    assert_eq!(count(&mut bench, "resourceVersion=0".to_owned()), 12);
    assert_eq!(count(&mut bench, format!("resourceVersion={old}")), 12, "not older than");
    assert_eq!(
        count(&mut bench, format!("resourceVersion={old}&resourceVersionMatch=NotOlderThan")),
        12
    );
    assert_eq!(count(&mut bench, format!("resourceVersion={old}&resourceVersionMatch=Exact")), 11);
    assert_eq!(
        count(&mut bench, format!("resourceVersion={old}&limit=50")),
        11,
        "a limit makes it exact"
    );
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let mut bench = bench();
    let mut texts = Vec::new();
    for query in [
        "labelSelector=a%3D%3Db%3D",
        "labelSelector=-a",
        "fieldSelector=spec.x%3D1",
        "fieldSelector=metadata.name",
        "continue=%25",
        "continue=eyJ2IjoieCJ9",
        "resourceVersion=99999",
        "resourceVersion=x",
        "resourceVersionMatch=Exact",
        "resourceVersionMatch=Exact&resourceVersion=0",
        "limit=x",
    ] {
        texts.push(bench.call("GET", &format!("{CONFIG_MAPS}?{query}"), "").text());
    }
    texts.push(bench.call("GET", &format!("{PODS}?fieldSelector=spec.x%3D1"), "").text());
    texts.push(bench.call("GET", &format!("{CONFIG_MAPS}/nosuch"), "").text());
    texts.push(bench.call("GET", "/api/v1/namespaces/default/nodes", "").text());
    expect![[r#"
        400 BadRequest: found '=', expected: ',' or 'end of string'
        400 BadRequest: unable to parse requirement: key: Invalid value: "-a": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
        400 BadRequest: "spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"
        400 BadRequest: invalid selector: 'metadata.name'; can't understand 'metadata.name'
        400 BadRequest: continue key is not valid: "%"
        400 BadRequest: continue key is not valid: "eyJ2IjoieCJ9"
        504 Timeout: Timeout: Too large resource version: 99999, current: 83
        400 BadRequest: invalid resource version "x": it must be a whole number
        422 Invalid: ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided
        422 Invalid: ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"
        400 BadRequest: invalid value for limit: "x" is not a whole number
        400 BadRequest: field label not supported: spec.x
        404 NotFound: configmaps "nosuch" not found
        404 NotFound: the server could not find the requested resource"#]].assert_eq(&texts.join("\n"));
}

#[test]
fn tables_and_metadata_are_given_on_request() {
    let mut bench = bench();
    let mut ask = |accept: &str, target: &str| {
        let mut request = bench.request("GET", target, "");
        request.accept = accept.to_owned();
        Reply(bench.answer(&request))
    };
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let list = ask(table, &format!("{CONFIG_MAPS}?labelSelector=n+in+(1,2)")).ok();
    expect![[r#"
        "Table" "meta.k8s.io/v1"
        "Name" "Data" "Age"
        ["m1",1,"0s"] "PartialObjectMetadata" "m1"
        ["m2",1,"0s"] "PartialObjectMetadata" "m2""#]]
    .assert_eq(&format!(
        "{} {}\n{}\n{}",
        list["kind"],
        list["apiVersion"],
        list["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c["name"].to_string())
            .collect::<Vec<_>>()
            .join(" "),
        list["rows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| format!(
                "{} {} {}",
                row["cells"], row["object"]["kind"], row["object"]["metadata"]["name"]
            ))
            .collect::<Vec<_>>()
            .join("\n"),
    ));
    let one = ask(table, &format!("{CONFIG_MAPS}/m1?includeObject=Object")).ok();
    assert_eq!(
        (one["rows"].as_array().unwrap().len(), &one["rows"][0]["object"]["data"]["a"]),
        (1, &json!("1"))
    );
    let none = ask(table, &format!("{CONFIG_MAPS}/m1?includeObject=None")).ok();
    assert_eq!(none["rows"][0]["object"], Value::Null);
    let metadata =
        ask("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", CONFIG_MAPS).ok();
    assert_eq!(
        (&metadata["kind"], &metadata["items"][1]["kind"], &metadata["items"][1]["data"]),
        (&json!("PartialObjectMetadataList"), &json!("PartialObjectMetadata"), &Value::Null)
    );
    assert_eq!(ask("application/cbor", CONFIG_MAPS).code(), 406);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn pages_of_any_size_make_the_whole_list(limit in 1usize..15, even in any::<bool>()) {
        let mut bench = bench();
        let selector = if even { "&labelSelector=even%3Dtrue" } else { "" };
        let whole = names(&bench.get(&format!("{CONFIG_MAPS}?x{selector}")));
        let mut paged = Vec::new();
        let mut token = String::new();
        for _ in 0..20 {
            let page = bench.get(&format!("{CONFIG_MAPS}?limit={limit}&continue={token}{selector}"));
            prop_assert!(page["items"].as_array().unwrap().len() <= limit);
            paged.extend(names(&page));
            match page["metadata"]["continue"].as_str() {
                Some(next) => token = next.to_owned(),
                None => break,
            }
        }
        prop_assert_eq!(paged, whole);
    }
}
