//! What one change of a pod costs: the view takes it in, says what it touches, and all that is
//! decided about it.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_controllers::{
    ClusterView, ControllerKey, NamespacedName, NewObject, ViewObject, WriteOperation, affected,
    reconcile,
};
use rekindle_types::held::HeldPod;
use serde_json::json;

use crate::objects::{self, Member};
use crate::{NODES, NOW, PODS, REPLICAS, is_wanted, on_processor, resident_kib};

/// Rounds of a measurement.
const CHANGES: usize = 1000;
/// Looks until a workload has nothing left to write.
const LOOKS_MAX: usize = 10;

/// What there is, and whose pods change.
struct Crowd {
    what: &'static str,
    view: ClusterView,
    /// The pods that change, in turns.
    pods: Vec<NamespacedName>,
    /// Who looks at least.
    expected: Vec<ControllerKey>,
}

/// Measures them.
pub(crate) fn measure() {
    for (what, crowd) in [
        ("one change of a ReplicaSet", replicas as fn(&'static str) -> Crowd),
        ("one change of a DaemonSet", daemons),
        ("one change of a StatefulSet", members),
        ("one change of a Job", workers),
        ("one change of a Deployment", rolled_out),
        ("one change beneath a Service", served),
        ("one change beneath a budget", guarded),
        ("one change beneath both", served_and_guarded),
    ] {
        if is_wanted(what) {
            crowd(what).measure();
        }
    }
}

/// What a view of pods weighs: of the first kind that is wanted, as memory that was given back
/// would be used again. Before all else.
pub(crate) fn weigh() {
    let kinds = [
        ("view of pods", replicas as fn(&'static str) -> Crowd),
        ("view of unlike pods", unlike),
        ("view of lone pods", lone),
        ("view of naked pods", naked),
    ];
    let Some((what, crowd)) = kinds.into_iter().find(|(what, _)| is_wanted(what)) else { return };
    let before = resident_kib();
    let crowd = crowd(what);
    let mib = (resident_kib() - before) / 1024;
    println!("{what}, {} on {NODES} nodes: {mib} MiB", crowd.pods.len());
}

/// Pods each of which has a host name of its own.
fn unlike(what: &'static str) -> Crowd {
    pods(what, |pod, member| pod["spec"]["hostname"] = json!(member.name))
}

/// Pods each of which has a controller of its own.
fn lone(what: &'static str) -> Crowd {
    pods(what, |pod, member| {
        pod["metadata"]["ownerReferences"][0]["uid"] = json!(member.name);
    })
}

/// Pods without a controller.
fn naked(what: &'static str) -> Crowd {
    pods(what, |pod, _| pod["metadata"]["ownerReferences"] = json!([]))
}

fn pods(what: &'static str, change: impl Fn(&mut serde_json::Value, &Member)) -> Crowd {
    let mut view = nodes();
    let changed = |number: usize| {
        let member = objects::replica(number);
        let mut pod = objects::pod(&member, Some(number % NODES));
        change(&mut pod, &member);
        objects::read(pod)
    };
    let pods = (0..PODS).map(|number| apply(&mut view, changed(number))).collect();
    Crowd { what, view, pods, expected: Vec::new() }
}

/// Pods of ReplicaSets, and nothing else.
fn replicas(what: &'static str) -> Crowd {
    let mut view = nodes();
    (0..PODS / REPLICAS).for_each(|number| drop(view.apply(objects::replica_set(number).into())));
    let pods =
        (0..PODS).map(|number| put(&mut view, &objects::replica(number), number % NODES)).collect();
    Crowd { what, view, pods, expected: Vec::new() }
}

/// A DaemonSet with a pod on every node.
fn daemons(what: &'static str) -> Crowd {
    let key = ControllerKey::DaemonSet(NamespacedName::new("shop", "agent"));
    let mut view = nodes();
    view.apply(objects::daemon_set().into());
    record(&mut view, &key);
    let hash = revision(&view).labels.unwrap()["controller-revision-hash"].clone();
    let pods = (0..NODES)
        .map(|number| {
            let member = Member {
                kind: "DaemonSet",
                owner: "agent".to_owned(),
                name: format!("agent-{number:04}"),
                labels: json!({"app": "agent", "controller-revision-hash": hash}),
            };
            // the names of a set's pods do not follow those of their nodes
            put(&mut view, &member, number * 7 % NODES)
        })
        .collect();
    settle(&mut view, &key);
    Crowd { what, view, pods, expected: vec![key] }
}

/// A StatefulSet of as many pods as there are nodes.
fn members(what: &'static str) -> Crowd {
    let key = ControllerKey::StatefulSet(NamespacedName::new("shop", "db"));
    let mut view = nodes();
    view.apply(objects::stateful_set(NODES).into());
    record(&mut view, &key);
    let revision = revision(&view).name.unwrap();
    let pods = (0..NODES)
        .map(|number| {
            let name = format!("db-{number}");
            let labels = json!({"app": "db", "controller-revision-hash": revision,
                "statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": number.to_string()});
            let member = Member { kind: "StatefulSet", owner: "db".to_owned(), name, labels };
            put(&mut view, &member, number)
        })
        .collect();
    settle(&mut view, &key);
    Crowd { what, view, pods, expected: vec![key] }
}

/// An indexed Job of as many pods as there are nodes.
fn workers(what: &'static str) -> Crowd {
    let key = ControllerKey::Job(NamespacedName::new("shop", "crunch"));
    let mut view = nodes();
    view.apply(objects::job(NODES).into());
    let pods = (0..NODES)
        .map(|index| {
            let member = Member {
                kind: "Job",
                owner: "crunch".to_owned(),
                name: format!("crunch-{index}"),
                labels: json!({"app": "crunch"}),
            };
            let mut pod = objects::typed(&member, Some(index));
            objects::track(&mut pod, index);
            let name = NamespacedName::from_meta(&pod.metadata);
            view.apply(pod.into());
            name
        })
        .collect();
    settle(&mut view, &key);
    Crowd { what, view, pods, expected: vec![key] }
}

/// A Deployment of as many pods as there are nodes, all of one ReplicaSet. What the ReplicaSet
/// writes is not carried out, so that the Deployment itself never looks.
fn rolled_out(what: &'static str) -> Crowd {
    let key = ControllerKey::ReplicaSet(NamespacedName::new("shop", "web"));
    let mut view = nodes();
    let (deployment, set) = objects::deployment(NODES);
    view.apply(deployment.into());
    view.apply(set.into());
    let pods = (0..NODES)
        .map(|number| {
            let member = Member {
                kind: "ReplicaSet",
                owner: "web".to_owned(),
                name: format!("web-{number}"),
                labels: json!({"app": "web", "pod-template-hash": "5d4f8c7b9"}),
            };
            put(&mut view, &member, number)
        })
        .collect();
    settle(&mut view, &key);
    Crowd { what, view, pods, expected: vec![key] }
}

/// A ReplicaSet's pods with a Service that leads to them, among others that have one.
fn served(what: &'static str) -> Crowd {
    covered(what, |view, app, name| {
        view.apply(objects::service(app).into());
        vec![ControllerKey::EndpointSlices(name.clone()), ControllerKey::Endpoints(name.clone())]
    })
}

/// The same with a budget that covers them.
fn guarded(what: &'static str) -> Crowd {
    covered(what, |view, app, name| {
        view.apply(objects::budget(app).into());
        vec![ControllerKey::Disruption(name.clone())]
    })
}

fn served_and_guarded(what: &'static str) -> Crowd {
    covered(what, |view, app, name| {
        view.apply(objects::service(app).into());
        view.apply(objects::budget(app).into());
        let slices = ControllerKey::EndpointSlices(name.clone());
        vec![
            slices,
            ControllerKey::Endpoints(name.clone()),
            ControllerKey::Disruption(name.clone()),
        ]
    })
}

/// What changes are pods of the last of the ReplicaSets, each of which is given the same; the keys
/// are of those who look at it.
fn covered(
    what: &'static str,
    cover: impl Fn(&mut ClusterView, &str, &NamespacedName) -> Vec<ControllerKey>,
) -> Crowd {
    let Crowd { mut view, pods, .. } = replicas(what);
    let mut expected = Vec::new();
    for number in 0..PODS / REPLICAS {
        let app = format!("web-{number}");
        expected = cover(&mut view, &app, &NamespacedName::new("shop", app.as_str()));
        expected.iter().for_each(|key| settle(&mut view, key));
    }
    let last = format!("web-{}-", PODS / REPLICAS - 1);
    let pods = pods.into_iter().filter(|pod| pod.name.starts_with(&last)).collect();
    Crowd { what, view, pods, expected }
}

/// All that a change brings about. A function of its own, so that a profiler can count what happens
/// beneath it alone.
#[inline(never)]
fn decide(view: &mut ClusterView, object: ViewObject) -> BTreeSet<ControllerKey> {
    let change = view.apply(object).unwrap();
    let keys = affected(view, &change);
    for key in &keys {
        std::hint::black_box(reconcile(view, key, NOW));
    }
    keys
}

/// How many changes are measured: fewer with `--changes=N`, for a profiler that takes its time.
fn changes() -> usize {
    let mut asked =
        std::env::args().filter_map(|argument| argument.strip_prefix("--changes=")?.parse().ok());
    asked.next().unwrap_or(CHANGES)
}

fn nodes() -> ClusterView {
    let mut view = ClusterView::new();
    (0..NODES).for_each(|number| drop(view.apply(objects::node(number).into())));
    view
}

fn put(view: &mut ClusterView, member: &Member, node: usize) -> NamespacedName {
    apply(view, objects::typed(member, Some(node)))
}

fn apply(view: &mut ClusterView, pod: HeldPod) -> NamespacedName {
    let name = NamespacedName::from_meta(&pod.metadata);
    view.apply(pod.into());
    name
}

/// Has a workload record its template.
fn record(view: &mut ClusterView, key: &ControllerKey) {
    carry_out(view, key, 1);
}

/// The only revision that there is.
fn revision(view: &ClusterView) -> ObjectMeta {
    let mut all = view.of_kind(rekindle_controllers::ResourceKind::ControllerRevision);
    all.next().unwrap().1.meta().clone()
}

/// Carries out what a key wants written, until it wants nothing.
fn settle(view: &mut ClusterView, key: &ControllerKey) {
    for look in 2..LOOKS_MAX {
        if !carry_out(view, key, look) {
            return;
        }
    }
    panic!("{key} does not come to an end");
}

fn carry_out(view: &mut ClusterView, key: &ControllerKey, look: usize) -> bool {
    let plan = reconcile(view, key, NOW);
    for step in plan.batches.iter().flatten() {
        match &step.write {
            WriteOperation::Create(NewObject::Object(object))
            | WriteOperation::Update(object)
            | WriteOperation::UpdateStatus(object) => {
                view.apply(stored(object, look));
            }
            other => panic!("{key}: {other:?}"),
        }
    }
    !plan.batches.is_empty()
}

/// The object as the server has it.
fn stored(object: &ViewObject, version: usize) -> ViewObject {
    macro_rules! marked {
        ($($kind:ident),*) => {
            match object {
                $(ViewObject::$kind(object) => {
                    let mut object = object.as_ref().clone();
                    let meta = &mut object.metadata;
                    let uid = format!("{}-{}", stringify!($kind), meta.name.as_deref().unwrap());
                    meta.uid.get_or_insert(uid);
                    meta.resource_version = Some(version.to_string());
                    ViewObject::from(object)
                })*
                other => panic!("{other:?}"),
            }
        };
    }
    marked!(
        ControllerRevision,
        DaemonSet,
        ReplicaSet,
        StatefulSet,
        Job,
        EndpointSlice,
        Endpoints,
        PodDisruptionBudget
    )
}

impl Crowd {
    fn measure(mut self) {
        let changes = changes();
        let total: Duration = (0..changes).map(|round| self.change(round)).sum();
        let each = total.as_micros() / u128::try_from(changes).unwrap();
        let count = self.view.of_kind(rekindle_controllers::ResourceKind::Pod).count();
        println!("{} among {count} pods: {each} µs (mean of {changes})", self.what);
    }

    /// A pod is not ready any more, or ready again.
    fn change(&mut self, round: usize) -> Duration {
        let name = &self.pods[round % self.pods.len()];
        let mut changed = self.view.pod(name).unwrap().as_ref().clone();
        changed.metadata.resource_version = Some((round + 10).to_string());
        let ready = &mut changed.status.as_mut().unwrap().conditions.as_mut().unwrap()[0];
        ready.status = if ready.status == "True" { "False" } else { "True" }.to_owned();
        let object = ViewObject::from(changed);
        let begun = on_processor();
        let keys = decide(&mut self.view, object);
        let time = on_processor() - begun;
        assert!(!keys.is_empty(), "somebody looks");
        self.expected.iter().for_each(|key| assert!(keys.contains(key), "{key}"));
        time
    }
}
