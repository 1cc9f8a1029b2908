//! create, update, patch: what they do and what they say when they refuse. Wording: apimachinery
//! `api/errors`, apiserver `registry/rest` and `endpoints/handlers`.

use expect_test::expect;
use serde_json::{Value, json};

use crate::harness::{
    Bench, CONFIG_MAPS, DEPLOYMENTS, PODS, Reply, config_map, deployment, pod, texts,
};

#[test]
fn a_created_object_has_what_the_server_gives() {
    let mut bench = Bench::new();
    let made = bench.create(CONFIG_MAPS, json!({
        "metadata": {"name": "a", "generation": 7, "selfLink": "x", "managedFields": [], "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "data": {"k": "v"},
    }));
    expect![[r#"
        {
          "apiVersion": "v1",
          "data": {
            "k": "v"
          },
          "kind": "ConfigMap",
          "metadata": {
            "creationTimestamp": "2026-11-18T11:06:40Z",
            "generation": 7,
            "managedFields": [
              {
                "apiVersion": "v1",
                "fieldsType": "FieldsV1",
                "fieldsV1": {
                  "f:data": {
                    ".": {},
                    "f:k": {}
                  }
                },
                "manager": "unknown",
                "operation": "Update",
                "time": "2026-11-18T11:06:40Z"
              }
            ],
            "name": "a",
            "namespace": "default",
            "resourceVersion": "74",
            "uid": "fa0b40cc-17be-462c-8a1b-1859a04761f1"
          }
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&made).unwrap());
    assert_eq!(bench.get(&format!("{CONFIG_MAPS}/a")), made);
    assert_eq!(
        bench.api.store().revision().to_string(),
        made["metadata"]["resourceVersion"].as_str().unwrap()
    );
}

#[test]
fn generated_names_are_unique() {
    let mut bench = Bench::new();
    let mut names = std::collections::BTreeSet::new();
    for _ in 0..50 {
        let made = bench.create(CONFIG_MAPS, json!({"metadata": {"generateName": "web-"}}));
        let name = made["metadata"]["name"].as_str().unwrap().to_owned();
        assert_eq!((name.len(), &name[..4]), (9, "web-"));
        assert!(names.insert(name));
    }
}

#[test]
fn refused_creates_say_why_as_upstream() {
    let mut bench = Bench::new();
    bench.create(CONFIG_MAPS, config_map("there"));
    let nowhere = "/api/v1/namespaces/nowhere/configmaps";
    let replies = vec![
        bench.call("POST", CONFIG_MAPS, &config_map("there").to_string()),
        bench.call("POST", nowhere, &config_map("a").to_string()),
        bench.call("POST", CONFIG_MAPS, "{}"),
        bench.call("POST", CONFIG_MAPS, r#"{"metadata":{"name":"A b"}}"#),
        bench.call("POST", CONFIG_MAPS, r#"{"metadata":{"name":"a","namespace":"other"}}"#),
        bench.call("POST", CONFIG_MAPS, r#"{"metadata":{"name":"a","resourceVersion":"5"}}"#),
        bench.call("POST", CONFIG_MAPS, r#"{"kind":"Pod","metadata":{"name":"a"}}"#),
        bench.call("POST", CONFIG_MAPS, r#"{"apiVersion":"v2","metadata":{"name":"a"}}"#),
        bench.call("POST", CONFIG_MAPS, "[]"),
        bench.call("POST", CONFIG_MAPS, "{"),
        bench.call("POST", CONFIG_MAPS, r#"{"metadata":{"name":"a"},"data":{"x":{"y":1}}}"#),
        bench.call("POST", DEPLOYMENTS, r#"{"metadata":{"name":"a"},"spec":{"replicas":"two"}}"#),
        bench.call("POST", &format!("{CONFIG_MAPS}/a"), "{}"),
        bench.call("POST", "/api/v1/configmaps", "{}"),
        bench.call("POST", "/api/v1/namespaces/default/nosuch", "{}"),
        bench.call("PUT", CONFIG_MAPS, "{}"),
    ];
    expect![[r#"
        409 AlreadyExists: configmaps "there" already exists
        404 NotFound: namespaces "nowhere" not found
        422 Invalid: ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required
        422 Invalid: ConfigMap "A b" is invalid: metadata.name: Invalid value: "A b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
        400 BadRequest: the namespace of the provided object does not match the namespace sent on the request
        500 : resourceVersion should not be set on objects to be created
        400 BadRequest: Pod in version "v1" cannot be handled as a ConfigMap: the kind in the data does not match the resource configmaps
        400 BadRequest: the API version in the data (v2) does not match the expected API version (v1)
        400 BadRequest: couldn't get version/kind; json parse error: json: cannot unmarshal array into a ConfigMap
        400 BadRequest: couldn't get version/kind; json parse error: unexpected end of JSON input
        400 BadRequest: ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal object into field data.x of type string
        400 BadRequest: Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal string into field spec.replicas of type int32
        405 MethodNotAllowed: the server does not allow this method on the requested resource
        405 MethodNotAllowed: the server does not allow this method on the requested resource
        404 NotFound: the server could not find the requested resource
        405 MethodNotAllowed: the server does not allow this method on the requested resource"#]].assert_eq(&texts(replies));
}

#[test]
fn fields_that_do_not_belong_are_refused_warned_of_or_ignored() {
    let mut bench = Bench::new();
    let body = r#"{"metadata":{"name":"NAME","x":1},"data":{"a":"1","a":"2"},"spec":{}}"#;
    let mut replies = Vec::new();
    for (name, mode) in [("a", "Strict"), ("b", "Warn"), ("c", "Ignore"), ("d", "")] {
        let target = format!("{CONFIG_MAPS}?fieldValidation={mode}");
        replies.push(bench.call("POST", &target, &body.replace("NAME", name)));
    }
    replies.push(bench.call("POST", &format!("{CONFIG_MAPS}?fieldValidation=Loose"), "{}"));
    expect![[r#"
        400 BadRequest: ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "metadata.x", duplicate field "data.a", unknown field "spec"
        201 : 
          warning: unknown field "metadata.x"
          warning: duplicate field "data.a"
          warning: unknown field "spec"
        201 : 
        201 : 
          warning: unknown field "metadata.x"
          warning: duplicate field "data.a"
          warning: unknown field "spec"
        422 Invalid: CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Loose": supported values: "", "Ignore", "Strict", "Warn""#]].assert_eq(&texts(replies));
    assert_eq!(bench.get(&format!("{CONFIG_MAPS}/b"))["data"]["a"], "2", "the last one counts");
}

#[test]
fn nulls_are_absent_fields() {
    let mut bench = Bench::new();
    let body = json!({
        "metadata": {"name": "a", "labels": null, "creationTimestamp": null},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "rungs": [{"rung": "Pod", "attempts": null}], "window": null},
        "status": null,
    });
    bench.create("/apis/rekindle.dev/v1alpha1/namespaces/default/restartladders", body);
    let mut web = pod("p");
    web["spec"]["containers"][0]["env"] = serde_json::Value::Null;
    web["spec"]["terminationGracePeriodSeconds"] = serde_json::Value::Null;
    let made = bench.create(PODS, web);
    assert_eq!(made["spec"]["terminationGracePeriodSeconds"], 30);
}

#[test]
fn yaml_is_read_like_json_and_protobuf_of_unknown_kinds_is_refused_by_name() {
    let mut bench = Bench::new();
    let mut request =
        bench.request("POST", CONFIG_MAPS, "metadata:\n  name: ya\ndata: {a: \"1\"}\n");
    request.content_type = "application/yaml".to_owned();
    assert_eq!(Reply(bench.answer(&request)).ok()["data"]["a"], "1");
    let mut replies = Vec::new();
    for (content_type, body) in [
        ("application/vnd.kubernetes.protobuf", "k8s\0\n\x18\n\x0eexample.com/v1\x12\x06Widget"),
        ("application/vnd.kubernetes.protobuf", "{}"),
        ("application/cbor", "x"),
        ("text/plain", "x"),
    ] {
        let mut request = bench.request("POST", CONFIG_MAPS, body);
        request.content_type = content_type.to_owned();
        replies.push(Reply(bench.answer(&request)));
    }
    expect![[r#"
        415 UnsupportedMediaType: the body of the request (application/vnd.kubernetes.protobuf) cannot be read: Widget in "example.com/v1" is not known in protobuf: send it as JSON
        400 BadRequest: protobuf parse error: the body does not begin as Kubernetes protobuf does
        415 UnsupportedMediaType: the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf
        415 UnsupportedMediaType: the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf"#]].assert_eq(&texts(replies));
}

#[test]
fn updates_replace_with_and_without_a_resource_version() {
    let mut bench = Bench::new();
    let made = bench.create(CONFIG_MAPS, config_map("a"));
    let target = format!("{CONFIG_MAPS}/a");
    let mut changed = made.clone();
    changed["data"] = json!({"b": "2"});
    let second = bench.call("PUT", &target, &changed.to_string()).ok();
    assert_eq!(second["data"], json!({"b": "2"}));
    assert_eq!(second["metadata"]["uid"], made["metadata"]["uid"]);
    assert_ne!(second["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    // without resourceVersion, uid and timestamps: they are kept
    let third = bench.call("PUT", &target, r#"{"metadata":{"name":"a"},"data":{"c":"3"}}"#).ok();
    assert_eq!(third["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(third["metadata"]["creationTimestamp"], made["metadata"]["creationTimestamp"]);
    // the same again writes nothing
    let same = bench.call("PUT", &target, r#"{"metadata":{"name":"a"},"data":{"c":"3"}}"#).ok();
    assert_eq!(same, third);

    let mut other_uid = third.clone();
    other_uid["metadata"]["uid"] = "x".into();
    let replies = vec![
        bench.call("PUT", &target, &changed.to_string()),
        bench.call("PUT", &target, &other_uid.to_string()),
        bench.call("PUT", &format!("{CONFIG_MAPS}/b"), "{}"),
        bench.call("PUT", &format!("{CONFIG_MAPS}/b"), r#"{"metadata":{"name":"b"}}"#),
        bench.call("PUT", &target, r#"{"metadata":{"name":"b"}}"#),
        bench.call("PUT", &target, r#"{"metadata":{"name":"a","namespace":"b"}}"#),
        bench.call("PUT", &target, r#"{"metadata":{"name":"a","resourceVersion":"abc"}}"#),
    ];
    expect![[r#"
        409 Conflict: Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to the latest version and try again
        409 Conflict: Operation cannot be fulfilled on configmaps "a": Precondition failed: UID in precondition: x, UID in object meta: fa0b40cc-17be-462c-8a1b-1859a04761f1
        400 BadRequest: the name of the object (b based on URL) was undeterminable: name must be provided
        404 NotFound: configmaps "b" not found
        400 BadRequest: the name of the object (b) does not match the name on the URL (a)
        400 BadRequest: the namespace of the provided object does not match the namespace sent on the request
        500 : invalid resource version "abc": it must be a whole number"#]].assert_eq(&texts(replies));
}

#[test]
fn each_patch_format_changes_what_it_names() {
    let mut bench = Bench::new();
    bench.create(DEPLOYMENTS, deployment("web"));
    let target = format!("{DEPLOYMENTS}/web");
    let env = |value: &serde_json::Value| value["spec"]["template"]["spec"]["containers"].clone();
    let strategic = r#"{"spec":{"template":{"spec":{"containers":[{"name":"c","env":[{"name":"A","value":"1"}]},{"name":"d","image":"localhost/demo"}]}}}}"#;
    let patched = bench.patch("strategic-merge-patch+json", &target, strategic).ok();
    assert_eq!(patched["metadata"]["generation"], 2);
    let names: Vec<_> =
        env(&patched).as_array().unwrap().iter().map(|c| c["name"].clone()).collect();
    assert_eq!(names, ["c", "d"]);
    let delete =
        r#"{"spec":{"template":{"spec":{"containers":[{"name":"d","$patch":"delete"}]}}}}"#;
    let patched = bench.patch("strategic-merge-patch+json", &target, delete).ok();
    assert_eq!(env(&patched).as_array().unwrap().len(), 1);
    let patched = bench
        .patch(
            "merge-patch+json",
            &target,
            r#"{"spec":{"replicas":5},"metadata":{"labels":{"x":"y"}}}"#,
        )
        .ok();
    assert_eq!(
        (&patched["spec"]["replicas"], &patched["metadata"]["labels"]["x"]),
        (&json!(5), &json!("y"))
    );
    let json_patch = r#"[{"op":"test","path":"/spec/replicas","value":5},{"op":"replace","path":"/spec/replicas","value":6}]"#;
    let patched = bench.patch("json-patch+json", &target, json_patch).ok();
    assert_eq!(patched["spec"]["replicas"], 6);
    let before = patched["metadata"]["resourceVersion"].clone();
    let patched = bench.patch("merge-patch+json", &target, "{}").ok();
    assert_eq!(patched["metadata"]["resourceVersion"], before, "an empty patch writes nothing");
}

#[test]
fn refused_patches_say_why() {
    let mut bench = Bench::new();
    bench.create(DEPLOYMENTS, deployment("web"));
    let target = format!("{DEPLOYMENTS}/web");
    let strict = format!("{target}?fieldValidation=Strict");
    let replies = vec![
        bench.patch(
            "json-patch+json",
            &target,
            r#"[{"op":"test","path":"/spec/replicas","value":9}]"#,
        ),
        bench.patch("json-patch+json", &target, r#"[{"op":"jump","path":"/spec"}]"#),
        bench.patch("json-patch+json", &target, "{}"),
        bench.patch("merge-patch+json", &target, "[]"),
        bench.patch("merge-patch+json", &target, "{"),
        bench.patch("merge-patch+json", &strict, r#"{"spec":{"foo":1}}"#),
        bench.patch("merge-patch+json", &target, r#"{"spec":{"foo":1}}"#),
        bench.patch("merge-patch+json", &target, r#"{"spec":{"replicas":"x"}}"#),
        bench.patch("merge-patch+json", &target, r#"{"spec":{"replicas":-1}}"#),
        bench.patch("merge-patch+json", &target, r#"{"kind":"Pod"}"#),
        bench.patch("merge-patch+json", &target, r#"{"metadata":{"name":"other"}}"#),
        bench.patch("merge-patch+json", &target, r#"{"metadata":{"resourceVersion":"1"}}"#),
        bench.patch(
            "strategic-merge-patch+json",
            &target,
            r#"{"spec":{"template":{"spec":{"containers":[{"image":"x"}]}}}}"#,
        ),
        bench.patch("apply-patch+yaml", &target, "{}"),
        bench.patch("xml", &target, "{}"),
        bench.patch("merge-patch+json", &format!("{DEPLOYMENTS}/nosuch"), "{}"),
    ];
    expect![[r#"
        422 Invalid: the server rejected our request due to an error in our request: testing path /spec/replicas failed: value did not match
        422 Invalid: the server rejected our request due to an error in our request: operation 0: unknown variant `jump`, expected one of `add`, `remove`, `replace`, `move`, `copy`, `test`
        400 BadRequest: error decoding patch: json: cannot unmarshal object into a list of operations
        400 BadRequest: error decoding patch: json: cannot unmarshal a value that is not an object into a patch
        400 BadRequest: error decoding patch: unexpected end of JSON input
        422 Invalid:  "" is invalid: patch: Invalid value: "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"creationTimestamp\":\"2026-11-18T11:06:40Z\",\"generation\":1,\"managedFields\":[{\"apiVersion\":\"apps/v1\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":\"{\\\"f:spec\\\":{\\\"f:progressDeadlineSeconds\\\":{},\\\"f:replicas\\\":{},\\\"f:revisionHistoryLimit\\\":{},\\\"f:selector\\\":{},\\\"f:strategy\\\":{\\\"f:rollingUpdate\\\":{\\\".\\\":{},\\\"f:maxSurge\\\":{},\\\"f:maxUnavailable\\\":{}},\\\"f:type\\\":{}},\\\"f:template\\\":{\\\"f:metadata\\\":{\\\"f:labels\\\":{\\\".\\\":{},\\\"f:app\\\":{}}},\\\"f:spec\\\":{\\\"f:containers\\\":{\\\"k:{\\\\\\\"name\\\\\\\":\\\\\\\"c\\\\\\\"}\\\":{\\\".\\\":{},\\\"f:image\\\":{},\\\"f:imagePullPolicy\\\":{},\\\"f:name\\\":{},\\\"f:resources\\\":{},\\\"f:terminationMessagePath\\\":{},\\\"f:terminationMessagePolicy\\\":{}}},\\\"f:dnsPolicy\\\":{},\\\"f:restartPolicy\\\":{},\\\"f:schedulerName\\\":{},\\\"f:securityContext\\\":{},\\\"f:terminationGracePeriodSeconds\\\":{}}}}}\",\"manager\":\"unknown\",\"operation\":\"Update\",\"time\":\"2026-11-18T11:06:40Z\"}],\"name\":\"web\",\"namespace\":\"default\",\"resourceVersion\":\"74\",\"uid\":\"fa0b40cc-17be-462c-8a1b-1859a04761f1\"},\"spec\":{\"foo\":1,\"progressDeadlineSeconds\":600,\"replicas\":2,\"revisionHistoryLimit\":10,\"selector\":{\"matchLabels\":{\"app\":\"web\"}},\"strategy\":{\"rollingUpdate\":{\"maxSurge\":\"25%\",\"maxUnavailable\":\"25%\"},\"type\":\"RollingUpdate\"},\"template\":{\"metadata\":{\"labels\":{\"app\":\"web\"}},\"spec\":{\"containers\":[{\"image\":\"localhost/demo\",\"imagePullPolicy\":\"Always\",\"name\":\"c\",\"resources\":{},\"terminationMessagePath\":\"/dev/termination-log\",\"terminationMessagePolicy\":\"File\"}],\"dnsPolicy\":\"ClusterFirst\",\"restartPolicy\":\"Always\",\"schedulerName\":\"default-scheduler\",\"securityContext\":{},\"terminationGracePeriodSeconds\":30}}},\"status\":{}}": strict decoding error: unknown field "spec.foo"
        200 : 
          warning: unknown field "spec.foo"
        422 Invalid:  "" is invalid: patch: Invalid value: "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"creationTimestamp\":\"2026-11-18T11:06:40Z\",\"generation\":1,\"managedFields\":[{\"apiVersion\":\"apps/v1\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":\"{\\\"f:spec\\\":{\\\"f:progressDeadlineSeconds\\\":{},\\\"f:replicas\\\":{},\\\"f:revisionHistoryLimit\\\":{},\\\"f:selector\\\":{},\\\"f:strategy\\\":{\\\"f:rollingUpdate\\\":{\\\".\\\":{},\\\"f:maxSurge\\\":{},\\\"f:maxUnavailable\\\":{}},\\\"f:type\\\":{}},\\\"f:template\\\":{\\\"f:metadata\\\":{\\\"f:labels\\\":{\\\".\\\":{},\\\"f:app\\\":{}}},\\\"f:spec\\\":{\\\"f:containers\\\":{\\\"k:{\\\\\\\"name\\\\\\\":\\\\\\\"c\\\\\\\"}\\\":{\\\".\\\":{},\\\"f:image\\\":{},\\\"f:imagePullPolicy\\\":{},\\\"f:name\\\":{},\\\"f:resources\\\":{},\\\"f:terminationMessagePath\\\":{},\\\"f:terminationMessagePolicy\\\":{}}},\\\"f:dnsPolicy\\\":{},\\\"f:restartPolicy\\\":{},\\\"f:schedulerName\\\":{},\\\"f:securityContext\\\":{},\\\"f:terminationGracePeriodSeconds\\\":{}}}}}\",\"manager\":\"unknown\",\"operation\":\"Update\",\"time\":\"2026-11-18T11:06:40Z\"}],\"name\":\"web\",\"namespace\":\"default\",\"resourceVersion\":\"74\",\"uid\":\"fa0b40cc-17be-462c-8a1b-1859a04761f1\"},\"spec\":{\"progressDeadlineSeconds\":600,\"replicas\":\"x\",\"revisionHistoryLimit\":10,\"selector\":{\"matchLabels\":{\"app\":\"web\"}},\"strategy\":{\"rollingUpdate\":{\"maxSurge\":\"25%\",\"maxUnavailable\":\"25%\"},\"type\":\"RollingUpdate\"},\"template\":{\"metadata\":{\"labels\":{\"app\":\"web\"}},\"spec\":{\"containers\":[{\"image\":\"localhost/demo\",\"imagePullPolicy\":\"Always\",\"name\":\"c\",\"resources\":{},\"terminationMessagePath\":\"/dev/termination-log\",\"terminationMessagePolicy\":\"File\"}],\"dnsPolicy\":\"ClusterFirst\",\"restartPolicy\":\"Always\",\"schedulerName\":\"default-scheduler\",\"securityContext\":{},\"terminationGracePeriodSeconds\":30}}},\"status\":{}}": json: cannot unmarshal string into field spec.replicas of type int32
        422 Invalid: Deployment.apps "web" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0
        422 Invalid:  "" is invalid: patch: Invalid value: "{\"apiVersion\":\"apps/v1\",\"kind\":\"Pod\",\"metadata\":{\"creationTimestamp\":\"2026-11-18T11:06:40Z\",\"generation\":1,\"managedFields\":[{\"apiVersion\":\"apps/v1\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":\"{\\\"f:spec\\\":{\\\"f:progressDeadlineSeconds\\\":{},\\\"f:replicas\\\":{},\\\"f:revisionHistoryLimit\\\":{},\\\"f:selector\\\":{},\\\"f:strategy\\\":{\\\"f:rollingUpdate\\\":{\\\".\\\":{},\\\"f:maxSurge\\\":{},\\\"f:maxUnavailable\\\":{}},\\\"f:type\\\":{}},\\\"f:template\\\":{\\\"f:metadata\\\":{\\\"f:labels\\\":{\\\".\\\":{},\\\"f:app\\\":{}}},\\\"f:spec\\\":{\\\"f:containers\\\":{\\\"k:{\\\\\\\"name\\\\\\\":\\\\\\\"c\\\\\\\"}\\\":{\\\".\\\":{},\\\"f:image\\\":{},\\\"f:imagePullPolicy\\\":{},\\\"f:name\\\":{},\\\"f:resources\\\":{},\\\"f:terminationMessagePath\\\":{},\\\"f:terminationMessagePolicy\\\":{}}},\\\"f:dnsPolicy\\\":{},\\\"f:restartPolicy\\\":{},\\\"f:schedulerName\\\":{},\\\"f:securityContext\\\":{},\\\"f:terminationGracePeriodSeconds\\\":{}}}}}\",\"manager\":\"unknown\",\"operation\":\"Update\",\"time\":\"2026-11-18T11:06:40Z\"}],\"name\":\"web\",\"namespace\":\"default\",\"resourceVersion\":\"74\",\"uid\":\"fa0b40cc-17be-462c-8a1b-1859a04761f1\"},\"spec\":{\"progressDeadlineSeconds\":600,\"replicas\":2,\"revisionHistoryLimit\":10,\"selector\":{\"matchLabels\":{\"app\":\"web\"}},\"strategy\":{\"rollingUpdate\":{\"maxSurge\":\"25%\",\"maxUnavailable\":\"25%\"},\"type\":\"RollingUpdate\"},\"template\":{\"metadata\":{\"labels\":{\"app\":\"web\"}},\"spec\":{\"containers\":[{\"image\":\"localhost/demo\",\"imagePullPolicy\":\"Always\",\"name\":\"c\",\"resources\":{},\"terminationMessagePath\":\"/dev/termination-log\",\"terminationMessagePolicy\":\"File\"}],\"dnsPolicy\":\"ClusterFirst\",\"restartPolicy\":\"Always\",\"schedulerName\":\"default-scheduler\",\"securityContext\":{},\"terminationGracePeriodSeconds\":30}}},\"status\":{}}": apiVersion and kind cannot change: they are "apps/v1" and "Deployment", not "apps/v1" and "Pod"
        400 BadRequest: the name of the object (other) does not match the name on the URL (web)
        409 Conflict: Operation cannot be fulfilled on deployments.apps "web": the object has been modified; please apply your changes to the latest version and try again
        500 : map: map[image:x] does not contain declared merge key: name
        422 Invalid: PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch
        415 UnsupportedMediaType: 415: Unsupported Media Type
        404 NotFound: deployments.apps "nosuch" not found"#]].assert_eq(&texts(replies));
}

#[test]
fn status_and_spec_are_written_apart() {
    let mut bench = Bench::new();
    bench.create(DEPLOYMENTS, deployment("web"));
    let target = format!("{DEPLOYMENTS}/web");
    let through_main =
        bench.patch("merge-patch+json", &target, r#"{"status":{"replicas":7}}"#).ok();
    assert_eq!(through_main["status"]["replicas"], serde_json::Value::Null);
    let body = r#"{"spec":{"replicas":9},"status":{"replicas":7}}"#;
    let through_status = bench.patch("merge-patch+json", &format!("{target}/status"), body).ok();
    assert_eq!(
        (&through_status["spec"]["replicas"], &through_status["status"]["replicas"]),
        (&json!(2), &json!(7))
    );
    assert_eq!(through_status["metadata"]["generation"], 1);
    assert_eq!(bench.get(&format!("{target}/status")), through_status);
}

/// What a patch of a pod's status says of the metadata counts, and all that it does not name stays.
#[test]
fn a_patch_of_a_status_leaves_the_metadata_that_it_does_not_name() {
    let mut bench = Bench::new();
    let mut made = pod("web");
    made["metadata"]["labels"] = json!({"app": "web"});
    made["metadata"]["annotations"] = json!({"example.com/note": "kept"});
    made["metadata"]["finalizers"] = json!(["example.com/waits"]);
    bench.create(PODS, made);
    let target = format!("{PODS}/web/status");
    let of_metadata = |object: &Value| {
        let mut metadata = object["metadata"].clone();
        metadata["resourceVersion"].take();
        metadata["managedFields"].take();
        metadata
    };
    let before = bench.get(&format!("{PODS}/web"));
    let known = json!({
        "uid": before["metadata"]["uid"], "resourceVersion": before["metadata"]["resourceVersion"],
    });
    let mut said = |kind: &str, metadata: Value, message: &str| {
        let patch =
            json!({"metadata": metadata, "status": {"phase": "Running", "message": message}});
        bench.patch(kind, &target, &patch.to_string())
    };
    for kind in ["merge-patch+json", "strategic-merge-patch+json"] {
        let after = said(kind, json!({"uid": known["uid"]}), kind).ok();
        assert_eq!(of_metadata(&after), of_metadata(&before));
        assert_eq!(after["status"]["message"], kind);
        let removed = said(kind, json!({"uid": null, "resourceVersion": null}), "none").ok();
        assert_eq!(of_metadata(&removed), of_metadata(&before));
        assert_eq!(said(kind, known.clone(), "stale").code(), 409);
        assert_eq!(said(kind, json!({"uid": "another"}), "wrong").code(), 422);
        assert_eq!(said(kind, json!({"name": "other"}), "wrong").code(), 400);
    }
    let labels = json!({"labels": {"tier": "front"}});
    let labelled = said("merge-patch+json", labels, "labelled").ok();
    let expected = json!({"app": "web", "tier": "front"});
    assert_eq!(labelled["metadata"]["labels"], expected);
    assert_eq!(labelled["metadata"]["annotations"], before["metadata"]["annotations"]);
    assert_eq!(labelled["status"]["phase"], "Running");
}

#[test]
fn scale_reads_and_writes_replicas() {
    let mut bench = Bench::new();
    bench.create(DEPLOYMENTS, deployment("web"));
    let target = format!("{DEPLOYMENTS}/web/scale");
    let scale = bench.get(&target);
    assert_eq!(
        (&scale["kind"], &scale["spec"]["replicas"], &scale["status"]["selector"]),
        (&json!("Scale"), &json!(2), &json!("app=web"))
    );
    let patched = bench.patch("merge-patch+json", &target, r#"{"spec":{"replicas":4}}"#).ok();
    assert_eq!(patched["spec"]["replicas"], 4);
    assert_eq!(bench.get(&format!("{DEPLOYMENTS}/web"))["spec"]["replicas"], 4);
    let stale = bench.call("PUT", &target, &scale.to_string());
    assert_eq!(stale.code(), 409);
    let negative = bench.patch("merge-patch+json", &target, r#"{"spec":{"replicas":-4}}"#);
    assert_eq!(
        negative.text(),
        "422 Invalid: Scale.autoscaling \"web\" is invalid: spec.replicas: Invalid value: -4: must be greater than or equal to 0"
    );
}

#[test]
fn a_binding_is_written_once() {
    let mut bench = Bench::new();
    bench.create(PODS, pod("p"));
    let nominated = r#"{"status":{"nominatedNodeName":"n1"}}"#;
    bench.patch("merge-patch+json", &format!("{PODS}/p/status"), nominated).ok();
    let target = format!("{PODS}/p/binding");
    let body = r#"{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n1"}}"#;
    assert_eq!(bench.call("POST", &target, body).ok()["status"], "Success");
    let bound = bench.get(&format!("{PODS}/p"));
    assert_eq!(bound["spec"]["nodeName"], "n1");
    assert_eq!(bound["metadata"]["generation"], 1, "a binding is no update of the spec (KEP-5067)");
    assert!(bound["status"]["nominatedNodeName"].is_null(), "nothing is kept free for it");
    let scheduled = &bound["status"]["conditions"][0];
    assert_eq!(
        (&scheduled["type"], &scheduled["status"]),
        (&json!("PodScheduled"), &json!("True"))
    );
    let replies = vec![
        bench.call("POST", &target, body),
        bench.call("POST", &target, r#"{"metadata":{"name":"p"},"target":{"kind":"Pod"}}"#),
        bench.call("POST", &target, r#"{"metadata":{"name":"q"},"target":{"name":"n1"}}"#),
        bench.call("POST", &format!("{PODS}/q/binding"), &body.replace("\"p\"", "\"q\"")),
    ];
    expect![[r#"
        409 Conflict: Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"
        500 : [target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>", target.name: Required value]
        400 BadRequest: name in URL does not match name in Binding object
        404 NotFound: pods "q" not found"#]].assert_eq(&texts(replies));
}

/// Upstream: `ValidatePodStatusUpdate`. A node takes away mirrors that it has no file for, so that
/// what runs would be without a pod.
#[test]
fn a_status_makes_no_pod_a_mirror_nor_any_mirror_a_pod() {
    const MIRROR: &str = "kubernetes.io/config.mirror";
    let mut bench = Bench::new();
    for (name, annotations) in [("plain", json!({})), ("mirror", json!({MIRROR: "abc"}))] {
        let mut pod = pod(name);
        pod["metadata"]["annotations"] = annotations;
        pod["spec"]["nodeName"] = "n1".into();
        bench.create(PODS, pod);
    }
    let added = "may not add mirror pod annotation";
    let changed = "may not remove or update mirror pod annotation";
    for (name, annotations, refusal) in [
        ("plain", json!({MIRROR: "abc"}), Some(added)),
        ("plain", json!({MIRROR: ""}), Some(added)),
        ("mirror", json!({MIRROR: "def"}), Some(changed)),
        ("mirror", json!({MIRROR: null}), Some(changed)),
        ("plain", json!({"controller.kubernetes.io/pod-deletion-cost": "x"}), Some("32bit")),
        ("plain", json!({"example.com/seen": "yes"}), None),
        ("mirror", json!({"example.com/seen": "yes"}), None),
    ] {
        let patch = json!({"metadata": {"annotations": annotations}, "status": {"message": "m"}});
        let target = format!("{PODS}/{name}/status");
        let answer = bench.patch("merge-patch+json", &target, &patch.to_string());
        match refusal {
            Some(why) => {
                let text = answer.text();
                assert!(text.starts_with("422") && text.contains(why), "{name} {patch}: {text}");
            }
            None => assert_eq!(answer.ok()["status"]["message"], "m", "{name} {patch}"),
        }
    }
}

/// KEP-3521: a scheduler that does not know gates must not start what is held back.
#[test]
fn a_pod_with_scheduling_gates_is_not_bound() {
    let mut bench = Bench::new();
    let mut gated = pod("p");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    bench.create(PODS, gated);
    let target = format!("{PODS}/p/binding");
    let body = r#"{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n1"}}"#;
    assert_eq!(
        bench.call("POST", &target, body).text(),
        "409 Conflict: Operation cannot be fulfilled on pods/binding \"p\": pod p has non-empty .spec.schedulingGates"
    );
    bench
        .patch("merge-patch+json", &format!("{PODS}/p"), r#"{"spec":{"schedulingGates":null}}"#)
        .ok();
    assert_eq!(bench.call("POST", &target, body).ok()["status"], "Success");
}

#[test]
fn a_dry_run_answers_and_changes_nothing() {
    let mut bench = Bench::new();
    bench.create(CONFIG_MAPS, config_map("a"));
    let before = bench.api.store().revision();
    let dry = "dryRun=All";
    assert_eq!(
        bench.call("POST", &format!("{CONFIG_MAPS}?{dry}"), &config_map("b").to_string()).code(),
        201
    );
    assert_eq!(
        bench.call("POST", &format!("{CONFIG_MAPS}?{dry}"), &config_map("a").to_string()).code(),
        409
    );
    let changed = bench
        .patch("merge-patch+json", &format!("{CONFIG_MAPS}/a?{dry}"), r#"{"data":{"z":"1"}}"#)
        .ok();
    assert_eq!(changed["data"]["z"], "1");
    bench.call("DELETE", &format!("{CONFIG_MAPS}/a?{dry}"), "").ok();
    bench.call("DELETE", &format!("{CONFIG_MAPS}/a"), r#"{"dryRun":["All"]}"#).ok();
    bench.call("DELETE", &format!("{CONFIG_MAPS}?{dry}"), "").ok();
    assert_eq!(bench.api.store().revision(), before);
}

/// Source: upstream, `ValidateDeploymentStatus`, `ValidateReplicaSetStatus`,
/// `ValidateStatefulSetStatus`.
#[test]
fn no_status_counts_more_parts_than_a_whole_or_less_than_none() {
    let mut bench = Bench::new();
    let controllers = "/api/v1/namespaces/default/replicationcontrollers";
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let stateful_sets = "/apis/apps/v1/namespaces/default/statefulsets";
    let mut set = deployment("web");
    bench.create(DEPLOYMENTS, set.clone());
    set["kind"] = json!("ReplicaSet");
    bench.create(sets, set.clone());
    set["kind"] = json!("StatefulSet");
    set["spec"]["serviceName"] = json!("web");
    bench.create(stateful_sets, set.clone());
    let template = &set["spec"]["template"];
    bench.create(controllers, json!({"metadata": {"name": "web"}, "spec": {"template": template}}));
    let good = r#"{"status":{"replicas":3,"readyReplicas":2,"availableReplicas":1}}"#;
    let bad = r#"{"status":{"replicas":1,"readyReplicas":2,"availableReplicas":3,"observedGeneration":-1}}"#;
    let mut replies = Vec::new();
    for collection in [DEPLOYMENTS, sets, controllers, stateful_sets] {
        let target = format!("{collection}/web/status");
        bench.patch("merge-patch+json", &target, good).ok();
        replies.push(bench.patch("merge-patch+json", &target, bad));
        let below = r#"{"status":{"replicas":-1,"readyReplicas":null,"availableReplicas":null}}"#;
        replies.push(bench.patch("merge-patch+json", &target, below));
    }
    expect![[r#"
        422 Invalid: Deployment.apps "web" is invalid: [status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas, status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas, status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas, status.observedGeneration: Invalid value: -1: must be greater than or equal to 0]
        422 Invalid: Deployment.apps "web" is invalid: [status.replicas: Invalid value: -1: must be greater than or equal to 0, status.updatedReplicas: Invalid value: 0: cannot be greater than status.replicas, status.readyReplicas: Invalid value: 0: cannot be greater than status.replicas, status.availableReplicas: Invalid value: 0: cannot be greater than status.replicas]
        422 Invalid: ReplicaSet.apps "web" is invalid: [status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas, status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas, status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas, status.observedGeneration: Invalid value: -1: must be greater than or equal to 0]
        422 Invalid: ReplicaSet.apps "web" is invalid: [status.replicas: Invalid value: -1: must be greater than or equal to 0, status.fullyLabeledReplicas: Invalid value: 0: cannot be greater than status.replicas, status.readyReplicas: Invalid value: 0: cannot be greater than status.replicas, status.availableReplicas: Invalid value: 0: cannot be greater than status.replicas]
        422 Invalid: ReplicationController "web" is invalid: [status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas, status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas, status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas, status.observedGeneration: Invalid value: -1: must be greater than or equal to 0]
        422 Invalid: ReplicationController "web" is invalid: [status.replicas: Invalid value: -1: must be greater than or equal to 0, status.fullyLabeledReplicas: Invalid value: 0: cannot be greater than status.replicas, status.readyReplicas: Invalid value: 0: cannot be greater than status.replicas, status.availableReplicas: Invalid value: 0: cannot be greater than status.replicas]
        422 Invalid: StatefulSet.apps "web" is invalid: [status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas, status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas, status.availableReplicas: Invalid value: 3: cannot be greater than status.readyReplicas]
        422 Invalid: StatefulSet.apps "web" is invalid: [status.replicas: Invalid value: -1: must be greater than or equal to 0, status.readyReplicas: Invalid value: 0: cannot be greater than status.replicas, status.currentReplicas: Invalid value: 0: cannot be greater than status.replicas, status.updatedReplicas: Invalid value: 0: cannot be greater than status.replicas, status.availableReplicas: Invalid value: 0: cannot be greater than status.replicas]"#]].assert_eq(&texts(replies));
}

#[test]
fn a_failed_commit_fails_the_request_and_leaves_everything_as_it_was() {
    let mut bench = Bench::new();
    bench.create(CONFIG_MAPS, config_map("a"));
    let before = bench.api.store().revision();
    bench.committer.disk_mut().inject(rekindle_store::memory::DiskFault::Refused);
    let failed =
        bench.patch("merge-patch+json", &format!("{CONFIG_MAPS}/a"), r#"{"data":{"z":"1"}}"#);
    assert_eq!(failed.code(), 500, "{}", failed.text());
    assert_eq!(bench.api.store().revision(), before);
    let again =
        bench.patch("merge-patch+json", &format!("{CONFIG_MAPS}/a"), r#"{"data":{"z":"2"}}"#).ok();
    assert_eq!(again["data"]["z"], "2");
}

#[test]
fn unconditional_changes_race_without_losing_one() {
    let mut bench = Bench::new();
    bench.create(CONFIG_MAPS, config_map("a"));
    // None of these waits for the disk before the next begins.
    let mut writes = Vec::new();
    for index in 0..20 {
        let request = bench.request(
            "PATCH",
            &format!("{CONFIG_MAPS}/a"),
            &json!({"data": {format!("k{index}"): "v"}}).to_string(),
        );
        match bench.api.handle(&request) {
            rekindle_api::RequestOutcome::Write(write) => writes.push(write),
            _ => panic!("a patch is a write"),
        }
    }
    bench.committer.commit_pending().unwrap();
    for mut write in writes {
        assert_eq!(write.try_answer().unwrap().code.as_u16(), 200);
    }
    assert_eq!(bench.get(&format!("{CONFIG_MAPS}/a"))["data"].as_object().unwrap().len(), 21);
}
