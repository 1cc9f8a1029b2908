//! The pods that a restart is about.

use std::collections::BTreeSet;

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use rekindle_types::pod_annotations::is_mirror;
use rekindle_types::pods::is_finished;
use rekindle_types::v1alpha1::not_restartable;

use super::printed::RestartOutputLines;
use super::rollback;
use crate::args::{Restart, RungArg};
use crate::target::{self, CommandTarget, Lookup, NamedTargets, TargetKind};
use rekindle_types::owners::is_controlled_by;

/// A pod to restart.
pub(super) struct SelectedPod {
    /// It.
    pub(super) pod: Pod,
    /// How it came to be one.
    pub(super) by: PodSelection,
}

/// How a pod was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodSelection {
    /// It is a target by itself.
    Name,
    /// It belongs to a target, or has the labels.
    Group,
}

/// Each pod once, in the order of the targets and of their names. Of a group, pods that have ended,
/// are being deleted or are on no node yet, or lack the container that is named, are passed over
/// and named; a pod that is a target by itself is left to the API's answer.
///
/// # Errors
/// Also when none of the pods that are meant has the container that is named: it is a mistake, and
/// nothing is asked for.
pub(super) async fn pods(
    args: &Restart,
    lookup: &Lookup,
    printed: &RestartOutputLines,
) -> anyhow::Result<Vec<SelectedPod>> {
    if args.all_namespaces {
        bail!(
            "a restart in all namespaces at once is not offered, for one wrong label would end everything: give -n NAMESPACE, or \
             node/NAME for all pods of one node"
        );
    }
    let container = args.container.as_deref();
    let pass_over = |pod: &Pod, why: &str| printed.line(&passing_over(lookup, pod, why));
    let mut pods: Vec<SelectedPod> = Vec::new();
    let mut lacking = 0;
    for target in targets(args, lookup).await? {
        match target {
            RestartChoice::Pods(found) => {
                let having = having(container, found, pass_over, &mut lacking);
                pods.extend(select_from_group(args.rung, lookup, having, pass_over).await?);
            }
            RestartChoice::Target(CommandTarget { kind: TargetKind::Pod, name }) => {
                let pod = lookup.object(TargetKind::Pod, &name).await?;
                if let Some(why) = container.and_then(|container| lacks(&pod, container)) {
                    bail!("{why}");
                }
                pods.push(SelectedPod { pod, by: PodSelection::Name });
            }
            RestartChoice::Target(CommandTarget { kind: TargetKind::CronJob, name }) => bail!(
                "cronjob/{name} makes Jobs and has no pods of its own: restart those of one Job, job/NAME"
            ),
            RestartChoice::Target(target) => {
                let found = lookup.pods_behind(&target).await?;
                let having = having(container, found, pass_over, &mut lacking);
                pods.extend(select_from_group(args.rung, lookup, having, pass_over).await?);
            }
        }
    }
    let mut seen = BTreeSet::new();
    pods.retain(|selected| seen.insert(selected.pod.uid()));
    if let Some(container) = container.filter(|_| pods.is_empty() && lacking > 0) {
        bail!("none of these pods has a container {container} that can be restarted by itself");
    }
    Ok(pods)
}

/// Those of a group that have the container that is named; the others are named and counted.
fn having(
    container: Option<&str>,
    pods: Vec<Pod>,
    pass_over: impl Fn(&Pod, &str),
    lacking: &mut usize,
) -> Vec<Pod> {
    let Some(container) = container else { return pods };
    let (having, others): (Vec<Pod>, Vec<Pod>) =
        pods.into_iter().partition(|pod| lacks(pod, container).is_none());
    for pod in &others {
        let why = format!("it has no container {container} that can be restarted by itself");
        pass_over(pod, &why);
    }
    *lacking += others.len();
    having
}

/// Why a container of this name cannot be restarted by itself in this pod.
fn lacks(pod: &Pod, container: &str) -> Option<String> {
    not_restartable(pod.spec.as_ref()?, &pod.name_any(), container)
}

/// What the arguments choose.
enum RestartChoice {
    /// Pods by their labels.
    Pods(Vec<Pod>),
    /// An object by its name.
    Target(CommandTarget),
}

async fn targets(args: &Restart, lookup: &Lookup) -> anyhow::Result<Vec<RestartChoice>> {
    let labels = args.selector.as_deref();
    let params = match labels {
        Some(labels) => ListParams::default().labels(labels),
        None => ListParams::default(),
    };
    let named = if args.targets.is_empty() {
        NamedTargets::All(TargetKind::Pod)
    } else {
        target::read(&args.targets)?
    };
    match (named, labels) {
        (NamedTargets::Each(_), Some(_)) => bail!("names and -l LABELS exclude each other"),
        (NamedTargets::Each(targets), None) => {
            Ok(targets.into_iter().map(RestartChoice::Target).collect())
        }
        (NamedTargets::All(TargetKind::Pod), Some(_)) => {
            Ok(vec![RestartChoice::Pods(lookup.pods(&params).await?)])
        }
        // `kubectl rollout restart deployment` means all of them; nobody means all pods of a
        // namespace, or all nodes
        (NamedTargets::All(kind @ (TargetKind::Pod | TargetKind::Node)), None) => {
            bail!(
                "which {kind}? Name it as {kind}/NAME, or choose by -l LABELS",
                kind = kind.name()
            )
        }
        (NamedTargets::All(kind), _) => Ok(lookup
            .targets(kind, &params)
            .await?
            .into_iter()
            .map(RestartChoice::Target)
            .collect()),
    }
}

async fn select_from_group(
    rung: RungArg,
    lookup: &Lookup,
    pods: Vec<Pod>,
    pass_over: impl Fn(&Pod, &str),
) -> anyhow::Result<Vec<SelectedPod>> {
    let pods = not_passed_over(rung, pods, pass_over);
    let pods = match rung {
        RungArg::Rollback => rollback::one_of_each(&lookup.client, pods).await?,
        RungArg::Container
        | RungArg::Containers
        | RungArg::Pod
        | RungArg::Recreate
        | RungArg::Reschedule => pods,
    };
    Ok(pods.into_iter().map(|pod| SelectedPod { pod, by: PodSelection::Group }).collect())
}

/// Why a pod of a group that was to be restarted is to be passed over as it is now.
pub(super) async fn passed_over_now(
    rung: RungArg,
    lookup: &Lookup,
    pod: &Pod,
) -> anyhow::Result<Option<String>> {
    let name = pod.name_any();
    let api: Api<Pod> =
        Api::namespaced(lookup.client.clone(), &pod.namespace().unwrap_or_default());
    let now = api.get_opt(&name).await.with_context(|| format!("read pod {name:?}"))?;
    let why = match now.filter(|now| now.uid() == pod.uid()) {
        None => Some("it is gone"),
        Some(now) => passed_over(rung, &now),
    };
    Ok(why.map(|why| passing_over(lookup, pod, why)))
}

fn passing_over(lookup: &Lookup, pod: &Pod, why: &str) -> String {
    format!("pod/{}: passed over, {why}", lookup.name_of(pod))
}

fn not_passed_over(rung: RungArg, pods: Vec<Pod>, tell: impl Fn(&Pod, &str)) -> Vec<Pod> {
    let mut kept = Vec::new();
    for pod in pods {
        match passed_over(rung, &pod) {
            None => kept.push(pod),
            Some(why) => tell(&pod, why),
        }
    }
    kept.sort_by_key(|pod| (pod.namespace(), pod.name_any()));
    kept
}

/// Why a pod of a group is not restarted.
fn passed_over(rung: RungArg, pod: &Pod) -> Option<&'static str> {
    if pod.metadata.deletion_timestamp.is_some() {
        return Some("it is being deleted");
    }
    if is_mirror(pod) && makes_a_new_pod(rung) {
        return Some("it is a static pod: its node alone can replace it");
    }
    if rung == RungArg::Reschedule && is_controlled_by(&pod.metadata, "DaemonSet") {
        return Some("it is of a DaemonSet and has no other node");
    }
    if is_finished(pod) {
        return Some("it has ended");
    }
    // a rollback concerns its Deployment, and that a pod finds no node may be what it is for
    let is_placed = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    (!is_placed && rung != RungArg::Rollback).then_some("it is not on a node yet")
}

/// Whether who asks for it asks for another pod.
pub(super) fn makes_a_new_pod(rung: RungArg) -> bool {
    match rung {
        RungArg::Container | RungArg::Containers | RungArg::Pod => false,
        RungArg::Recreate | RungArg::Reschedule | RungArg::Rollback => true,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use serde_json::json;

    use super::*;

    #[test]
    fn pods_that_cannot_be_restarted_are_passed_over_and_the_rest_comes_in_order() {
        let pods = [
            json!({"metadata": {"name": "b", "namespace": "n"}, "spec": on_a_node()}),
            json!({"metadata": {"name": "a", "namespace": "n"}, "spec": on_a_node(), "status": {"phase": "Running"}}),
            json!({"metadata": {"name": "done"}, "spec": on_a_node(), "status": {"phase": "Succeeded"}}),
            json!({"metadata": {"name": "going", "deletionTimestamp": "2026-11-21T12:00:00Z"}, "spec": on_a_node()}),
            json!({"metadata": {"name": "waits", "namespace": "n"}, "spec": {"containers": []}, "status": {"phase": "Pending"}}),
        ];
        let pods = pods.map(|pod| serde_json::from_value(pod).unwrap()).to_vec();
        let told = RefCell::new(Vec::new());
        let tell =
            |pod: &Pod, why: &str| told.borrow_mut().push(format!("{} {why}", pod.name_any()));
        let kept = not_passed_over(RungArg::Pod, pods.clone(), tell);
        let names: Vec<String> = kept.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["a", "b"]);
        let all =
            ["done it has ended", "going it is being deleted", "waits it is not on a node yet"];
        assert_eq!(*told.borrow(), all);
        let kept = not_passed_over(RungArg::Rollback, pods, |_, _| {});
        let names: Vec<String> = kept.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["a", "b", "waits"], "it may be what the rollback is for");
    }

    fn on_a_node() -> serde_json::Value {
        json!({"nodeName": "node-1", "containers": []})
    }

    #[test]
    fn a_pod_that_only_its_node_can_replace_does_not_stop_the_others() {
        let mirror = json!({"spec": on_a_node(), "metadata": {
            "name": "a", "annotations": {"kubernetes.io/config.mirror": "x"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": true}],
        }});
        let of_daemon_set = json!({"spec": on_a_node(), "metadata": {
            "name": "b",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true}],
        }});
        let other = json!({"spec": on_a_node(), "metadata": {"name": "c"}});
        let pods = [mirror, of_daemon_set, other].map(|pod| serde_json::from_value(pod).unwrap());
        for (rung, expected) in [
            (RungArg::Pod, vec!["a", "b", "c"]),
            (RungArg::Recreate, vec!["b", "c"]),
            (RungArg::Reschedule, vec!["c"]),
        ] {
            let kept = not_passed_over(rung, pods.to_vec(), |_, _| {});
            let names: Vec<String> = kept.iter().map(ResourceExt::name_any).collect();
            assert_eq!(names, expected, "{rung:?}");
        }
    }
}
