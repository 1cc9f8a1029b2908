//! The work of a write grows with its body, whatever its lists: it is counted in the keys of lists
//! that the checks add and look up (ADR 0041). A check that searches a list for each entry of a
//! list counts too little here, so it fails the lower bound; one that looks up too often fails the
//! upper one. `crates/pure/api/tests/requests/list_searches.rs` holds the number of plain searches.

mod every_list;

use rekindle_types::Tick;
use serde_json::{Value, json};

use crate::identity::ClientIdentity;
use crate::registry::{AnyObject, KindEntry, ObjectPart, RequestContext, TableCell, object_meta};
use crate::validation::list_keys::steps;
use crate::validation::{Path, new_mistakes};

/// The entries of the smaller body; the larger one has four times as many.
const ENTRIES: usize = 200;
/// The most bytes of what is wrong with a body. The answer says it twice: in its message, and in
/// its causes.
const REFUSAL_BYTES_MAX: usize = 1 << 20;
/// The most Warnings of one body beside those of its reading.
const WARNINGS_MAX: usize = 64;

/// A body with lists of so many entries each.
type Body = fn(usize) -> Value;

/// What a write of the body takes: steps of the checks, and what is said of it.
struct Counted {
    steps: u64,
    refusal_bytes: usize,
    warnings: usize,
    row_bytes: usize,
}

fn read(entry: &KindEntry, body: &Value) -> Box<dyn AnyObject> {
    let read = entry.codec.decode(body).unwrap();
    assert_eq!(read.unknown_fields, [""; 0]);
    read.object
}

/// All that is done to a body by a create, by an update that changes nothing, and by writes of
/// subresources.
fn count(entry: &KindEntry, body: &Value) -> Counted {
    let before = steps::taken();
    let context = RequestContext { now: Tick::ZERO, identity: &ClientIdentity::Anonymous };
    let mut object = read(entry, body);
    let given = object.boxed_clone();
    object.set_defaults();
    object.prepare_for_create(&context);
    object.prepare_named();
    let object = object.as_ref();
    let metadata = Path::new("metadata");
    let mut errors = object_meta::check(object.meta(), &entry.metadata_rules(), &metadata);
    errors.extend(object_meta::check_update(given.meta(), given.meta(), &metadata));
    errors.extend(new_mistakes(object.validate(), || object.validate()));
    errors.extend(object.validate_created());
    errors.extend(object.validate_change(ObjectPart::Main, object));
    errors.extend(given.validate_change(ObjectPart::Status, object));
    errors.extend(object.validate_change(ObjectPart::Resize, object));
    errors.extend(given.validate_change(ObjectPart::EphemeralContainers, given.as_ref()));
    let warnings = object.warnings().len();
    let own_row = given.row(Tick::ZERO).len();
    assert_eq!(own_row, entry.columns.len());
    let refusal_bytes = errors.iter().map(|error| error.to_string().len()).sum();
    let cells = object.row(Tick::ZERO).into_iter().map(|cell| match cell {
        TableCell::Text(text) => text.len(),
        TableCell::Int(_) => 8,
        TableCell::Json(value) => value.to_string().len(),
    });
    Counted { steps: steps::taken() - before, refusal_bytes, warnings, row_bytes: cells.sum() }
}

fn list(entries: usize, entry: impl Fn(usize) -> Value) -> Value {
    (0..entries).map(entry).collect()
}

fn name(index: usize) -> String {
    format!("n{index:05}")
}

fn pod(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"}, "spec": spec})
}

/// A pod of one container.
fn with_container(container: Value, mut spec: Value) -> Value {
    let mut own = json!({"name": "web", "image": "web:1"});
    own.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
    spec["containers"] = json!([own]);
    pod(spec)
}

fn with_status(status: Value, mut pod: Value) -> Value {
    pod["status"] = status;
    pod
}

fn empty_dirs(entries: usize) -> Value {
    list(entries, |n| json!({"name": name(n), "emptyDir": {}}))
}

fn selector(entries: usize) -> Value {
    let keys = list(entries, |n| json!({"key": name(n), "operator": "Exists"}));
    json!({"matchExpressions": keys})
}

/// Each list that a check compares with itself or with another one: its resource, how many keys a
/// write of it adds and looks up for each entry at least, and a body.
const BODIES: &[(&str, &str, u64, Body)] = &[
    ("sysctls", "pods", 2, |n| {
        with_container(
            json!({}),
            json!({"securityContext": {"sysctls":
            list(n, |n| json!({"name": format!("net.{}", name(n)), "value": "1"}))}}),
        )
    }),
    ("env", "pods", 1, |n| {
        with_container(
            json!({"env": list(n, |n| json!({"name": name(n), "value": "1"}))}),
            json!({}),
        )
    }),
    ("ports", "pods", 3, |n| {
        let port = |n| json!({"name": name(n), "containerPort": n + 1, "hostPort": n + 1});
        with_container(json!({"ports": list(n, port)}), json!({}))
    }),
    ("hostAliases", "pods", 1, |n| {
        let alias = |n| json!({"ip": format!("10.0.{}.{}", n / 256, n % 256), "hostnames": ["a"]});
        with_container(json!({}), json!({"hostAliases": list(n, alias)}))
    }),
    ("imagePullSecrets", "pods", 1, |n| {
        with_container(
            json!({}),
            json!({"imagePullSecrets": list(n, |n| json!({"name": name(n)}))}),
        )
    }),
    ("volumeMounts", "pods", 8, |n| {
        let mount = |n| json!({"name": name(n), "mountPath": format!("/{}", name(n))});
        with_container(json!({"volumeMounts": list(n, mount)}), json!({"volumes": empty_dirs(n)}))
    }),
    ("volumeDevices", "pods", 10, |n| {
        let device = |n| json!({"name": name(n), "devicePath": format!("/{}", name(n))});
        with_container(json!({"volumeDevices": list(n, device)}), json!({"volumes": empty_dirs(n)}))
    }),
    ("bindMountOptions", "pods", 2, |n| {
        let mount = json!({"name": "a", "mountPath": "/a", "bindMountOptions": list(n, |n| json!(name(n)))});
        with_container(json!({"volumeMounts": [mount]}), json!({"volumes": [{"name": "a"}]}))
    }),
    ("fileKeyRef", "pods", 4, |n| {
        let variable = |n| {
            json!({"name": name(n), "valueFrom": {"fileKeyRef":
            {"volumeName": name(n), "path": "a", "key": "a"}}})
        };
        with_container(json!({"env": list(n, variable)}), json!({"volumes": empty_dirs(n)}))
    }),
    ("claims", "pods", 10, |n| {
        let claim = |n| json!({"name": name(n), "resourceClaimName": "a"});
        let used = list(n, |n| json!({"name": name(n), "request": "a"}));
        with_container(
            json!({"resources": {"claims": used}}),
            json!({"resourceClaims": list(n, claim)}),
        )
    }),
    ("unknown claims", "pods", 8, |n| {
        let used = list(n, |n| json!({"name": name(n)}));
        let known = list(n, |n| json!({"name": format!("k{n:05}"), "resourceClaimName": "a"}));
        with_container(json!({"resources": {"claims": used}}), json!({"resourceClaims": known}))
    }),
    ("tolerations", "pods", 2, |n| {
        let toleration = |n| json!({"key": name(n), "operator": "Exists"});
        with_container(json!({}), json!({"tolerations": list(n, toleration)}))
    }),
    ("topologySpreadConstraints", "pods", 2, |n| {
        let one =
            |n| json!({"topologyKey": name(n), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"});
        with_container(json!({}), json!({"topologySpreadConstraints": list(n, one)}))
    }),
    ("matchLabelKeys", "pods", 8, |n| {
        let term = json!({"topologyKey": "zone", "labelSelector": selector(n),
            "matchLabelKeys": list(n, |n| json!(name(n))), "mismatchLabelKeys": list(n, |n| json!(name(n)))});
        let mut pod = with_container(
            json!({}),
            json!({"affinity": {"podAntiAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}),
        );
        pod["metadata"]["labels"] = (0..n).map(|n| (name(n), json!("a"))).collect();
        pod
    }),
    ("schedulingGates", "pods", 4, |n| {
        with_container(json!({}), json!({"schedulingGates": list(n, |n| json!({"name": name(n)}))}))
    }),
    ("initContainers", "pods", 2, |n| {
        let init = list(n, |n| json!({"name": name(n), "image": "a"}));
        with_container(json!({}), json!({"initContainers": init}))
    }),
    ("ephemeralContainers", "pods", 4, |n| {
        let ephemeral = list(n, |n| json!({"name": name(n), "image": "a"}));
        with_container(json!({}), json!({"ephemeralContainers": ephemeral}))
    }),
    ("projected sources", "pods", 2, |n| {
        let source = |n| json!({"serviceAccountToken": {"path": name(n)}});
        let items = list(n, |n| json!({"key": "a", "path": name(n)}));
        let mut sources = list(n, source);
        sources.as_array_mut().unwrap().push(json!({"configMap": {"name": "a", "items": items}}));
        with_container(
            json!({}),
            json!({"volumes": [{"name": "a", "projected": {"sources": sources}}]}),
        )
    }),
    ("AppArmor annotations", "pods", 2, |n| {
        let mut pod =
            pod(json!({"containers": list(n, |n| json!({"name": name(n), "image": "a"}))}));
        let key = |n| format!("container.apparmor.security.beta.kubernetes.io/{}", name(n));
        pod["metadata"]["annotations"] = (0..n).map(|n| (key(n), json!("unconfined"))).collect();
        pod
    }),
    ("containerStatuses", "pods", 2, |n| {
        let pod = pod(json!({"containers": list(n, |n| json!({"name": name(n), "image": "a"}))}));
        let status = |n| json!({"name": name(n), "image": "a", "imageID": "", "ready": true, "restartCount": 0});
        with_status(json!({"containerStatuses": list(n, status)}), pod)
    }),
    ("allocatedResourcesStatus", "pods", 2, |n| {
        let used = list(n, |n| json!({"name": name(n)}));
        let pod = with_container(json!({"resources": {"claims": used}}), json!({}));
        let devices = list(n, |n| json!({"name": format!("claim:{}", name(n)), "resources": []}));
        let status = json!({"name": "web", "image": "a", "imageID": "", "ready": true, "restartCount": 0,
            "allocatedResourcesStatus": devices});
        with_status(json!({"containerStatuses": [status]}), pod)
    }),
    ("resourceClaimStatuses", "pods", 4, |n| {
        let claims = list(n, |n| json!({"name": name(n), "resourceClaimName": "a"}));
        let pod = with_container(json!({}), json!({"resourceClaims": claims}));
        with_status(json!({"resourceClaimStatuses": list(n, |n| json!({"name": name(n)}))}), pod)
    }),
    ("podIPs", "pods", 1, |n| {
        let ip = |n| json!({"ip": format!("10.0.{}.{}", n / 256, n % 256)});
        with_status(json!({"podIPs": list(n, ip)}), with_container(json!({}), json!({})))
    }),
    ("readinessGates", "pods", 2, |n| {
        let gates = list(n, |n| json!({"conditionType": name(n)}));
        let conditions = list(n, |n| json!({"type": name(n), "status": "True"}));
        with_status(
            json!({"conditions": conditions}),
            with_container(json!({}), json!({"readinessGates": gates})),
        )
    }),
    ("initContainerStatuses", "pods", 6, |n| {
        let init = |n| json!({"name": name(n), "image": "a", "restartPolicy": "Always"});
        let status = |n| {
            json!({"name": name(n), "image": "a", "imageID": "", "ready": true,
            "restartCount": 0, "started": true})
        };
        with_status(
            json!({"initContainerStatuses": list(n, status)}),
            with_container(json!({}), json!({"initContainers": list(n, init)})),
        )
    }),
    ("finalizers of what is deleted", "configmaps", 2, |n| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default",
            "deletionTimestamp": "2026-11-21T12:00:00Z", "finalizers": list(n, |n| json!(format!("a/{}", name(n))))}})
    }),
    ("mistakes that were there before", "configmaps", 2, |n| {
        let data: Value = (0..n).map(|n| (format!("/{}", name(n)), json!(""))).collect();
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}, "data": data})
    }),
    ("volumeClaimTemplates", "statefulsets", 6, |n| {
        let claim = |n| {
            json!({"metadata": {"name": name(n)}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1"}}}})
        };
        let mounts = list(n, |n| json!({"name": name(n), "mountPath": format!("/{}", name(n))}));
        let pods = json!({"containers": [{"name": "a", "image": "a", "volumeMounts": mounts}]});
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "a", "namespace": "default"},
            "spec": {"serviceName": "a", "selector": {"matchLabels": {"a": "a"}}, "volumeClaimTemplates": list(n, claim),
                "template": {"metadata": {"labels": {"a": "a"}}, "spec": pods}}})
    }),
    ("taints", "nodes", 2, |n| {
        let taint = |n| json!({"key": name(n), "effect": "NoSchedule"});
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "spec": {"taints": list(n, taint)}})
    }),
    ("ports of a Service", "services", 4, |n| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "default"},
            "spec": {"ports": list(n, |n| json!({"name": name(n), "port": n + 1}))}})
    }),
    ("ports of an EndpointSlice", "endpointslices", 2, |n| {
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "a", "namespace": "default"}, "endpoints": [],
            "ports": list(n, |n| json!({"name": name(n), "port": n + 1}))})
    }),
    ("addresses and ports of Endpoints", "endpoints", 0, |n| {
        let address = |n| json!({"ip": format!("10.0.{}.{}", n / 256, n % 256)});
        json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "a", "namespace": "default"},
            "subsets": [{"addresses": list(n, address), "ports": list(n, |n| json!({"name": name(n), "port": n + 1}))}]})
    }),
    ("exit codes", "jobs", 2, |n| {
        let rule = json!({"action": "Ignore", "onExitCodes": {"operator": "In", "values": list(n + 300, |n| json!(n + 1))}});
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a", "namespace": "default"},
            "spec": {"podFailurePolicy": {"rules": [rule]}, "template": {"spec":
                {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}}})
    }),
    ("uncounted pods", "jobs", 1, |n| {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a", "namespace": "default"},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}},
            "status": {"uncountedTerminatedPods": {"succeeded": list(n, |n| json!(name(n)))}}})
    }),
];

#[test]
fn the_steps_of_a_write_grow_with_its_lists_and_each_list_is_counted() {
    let registry = crate::all();
    let mut wrong: Vec<String> = Vec::new();
    for (what, plural, per_entry, body) in BODIES {
        let entry = registry.kinds().find(|entry| entry.plural == *plural).expect(plural);
        let (small, large) = (count(entry, &body(ENTRIES)), count(entry, &body(4 * ENTRIES)));
        let entries = u64::try_from(ENTRIES).unwrap();
        let (few, many) = (small.steps, large.steps);
        if few < per_entry * entries {
            wrong.push(format!("{what}: {few} steps for {entries} entries: a list is searched"));
        }
        if many > 4 * few + 64 {
            wrong.push(format!(
                "{what}: {few} steps for {entries} entries, {many} for four times as many"
            ));
        }
        if large.refusal_bytes > REFUSAL_BYTES_MAX || large.warnings > WARNINGS_MAX {
            wrong.push(format!("{what}: a long answer, or {} warnings", large.warnings));
        }
        // the numbers in it grow, too
        if large.row_bytes > 5 * small.row_bytes + 64 {
            wrong.push(format!("{what}: a row of {} bytes", large.row_bytes));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
