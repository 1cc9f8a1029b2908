//! Follows a request until nothing more will happen, and the pod until it is Ready again.

use std::collections::BTreeSet;

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::Api;
use rekindle_types::Tick;
use rekindle_types::pods::{is_finished, is_ready};
use rekindle_types::v1alpha1::{PodRestart, PodRestartPhase, PodRestartStatus, PodRestartStep};

use super::ahead::{pod_of, target_of};
use super::screen::ProgressScreen;
use super::wait::until;
use crate::target::Lookup;

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FollowResult {
    /// It was done.
    Done,
    /// It failed; the reason was shown.
    NotDone,
    /// It was refused; the reason was shown.
    Refused,
}

/// Follows the request; with `before`, the pod as it was before, also until the pod is Ready again.
pub(super) async fn restart(
    lookup: &Lookup,
    asked: &PodRestart,
    before: Option<&Pod>,
    screen: &ProgressScreen<'_>,
) -> anyhow::Result<FollowResult> {
    let pod = pod_of(lookup, asked);
    let namespace = asked.namespace().unwrap_or_default();
    screen.waiting(format!("restarting {}", target_of(lookup, asked)));
    let restarts = Api::namespaced(lookup.client.clone(), &namespace);
    match ended(&restarts, asked, screen).await? {
        PodRestartPhase::Succeeded => {}
        PodRestartPhase::Refused => return Ok(FollowResult::Refused),
        PodRestartPhase::Running | PodRestartPhase::Failed | PodRestartPhase::Withdrawn => {
            return Ok(FollowResult::NotDone);
        }
    }
    if let Some(before) = before {
        screen.waiting(format!("until pod {pod} is Ready"));
        let pods: Api<Pod> = Api::namespaced(lookup.client.clone(), &namespace);
        let container = asked.spec.container_name.as_deref();
        let is_settled = |now: Option<&Pod>| settled(before, now, container);
        let after = until(pods, &asked.spec.pod_name, screen, is_settled)
            .await
            .with_context(|| format!("watch pod {pod:?}"))?;
        let is_kept =
            |now: &Pod| now.uid() == before.uid() && now.metadata.deletion_timestamp.is_none();
        let Some(after) = after.filter(is_kept) else {
            screen.line(&format!("pod/{pod} was deleted meanwhile"));
            return Ok(FollowResult::NotDone);
        };
        screen.line(&format!("pod/{pod} {}", outcome(&after)));
    }
    screen.one_done();
    Ok(FollowResult::Done)
}

/// Waits for the end of the request and shows each of its steps once.
async fn ended(
    restarts: &Api<PodRestart>,
    asked: &PodRestart,
    screen: &ProgressScreen<'_>,
) -> anyhow::Result<PodRestartPhase> {
    let name = asked.name_any();
    let mut shown = BTreeSet::new();
    let is_over = |restart: Option<&PodRestart>| {
        let Some(restart) = restart else { return true };
        screen.printed.seen(restart);
        let Some(status) = &restart.status else { return false };
        for (key, line) in lines(status) {
            if shown.insert(key) {
                screen.line(&line);
            }
        }
        status.phase.is_some_and(PodRestartPhase::is_final)
    };
    let over = until(restarts.clone(), &name, screen, is_over)
        .await
        .with_context(|| format!("podrestart {name} goes on, but cannot be watched"))?;
    match over.and_then(|restart| restart.status?.phase) {
        Some(phase) => Ok(phase),
        None => bail!("podrestart {name} was deleted before it was done"),
    }
}

/// The steps as they are shown, and what tells each from the others. One that is taken again has
/// the same key. Before the first of them it may be said why nobody takes the request up: its node
/// does not answer.
fn lines(status: &PodRestartStatus) -> Vec<(String, String)> {
    let first = status.steps.iter().map(|step| Tick::from(&step.at)).min();
    let of_step = |step: &PodRestartStep| {
        let key = format!("{:?}: {}", step.phase, step.message);
        let taken = first.map(|first| Tick::from(&step.at).since(first)).unwrap_or_default();
        let millis = taken.as_micros() / 1000;
        let line = format!("{key} (after {}.{:03}s)", millis / 1000, millis % 1000);
        (key, line)
    };
    let waits = status.message.as_ref().filter(|_| status.phase.is_none());
    let waits = waits.map(|why| format!("Pending: {why}")).map(|line| (line.clone(), line));
    waits.into_iter().chain(status.steps.iter().map(of_step)).collect()
}

/// What became of a pod that is settled.
fn outcome(pod: &Pod) -> &'static str {
    if is_finished(pod) { "has ended" } else { "is ready" }
}

/// The pod is Ready and runs none of the containers that it ran before, or not the one that is
/// named; or it is over, or another one.
fn settled(before: &Pod, now: Option<&Pod>, container: Option<&str>) -> bool {
    let Some(now) = now else { return true };
    if now.uid() != before.uid() || now.metadata.deletion_timestamp.is_some() {
        return true;
    }
    // it ran to its end, as a Job's pod does, and will not be ready any more
    if is_finished(now) {
        return true;
    }
    let old = running(before, container);
    is_ready(now) && running(now, container).iter().all(|id| !old.contains(id))
}

/// The ids of the containers that run, or of the one that is named, which may be a sidecar.
fn running<'a>(pod: &'a Pod, container: Option<&str>) -> Vec<&'a str> {
    let regular = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let inits = pod.status.iter().flat_map(|s| s.init_container_statuses.iter().flatten());
    let named = inits.filter(|_| container.is_some()).chain(regular);
    named
        .filter(|status| container.is_none_or(|name| status.name == name))
        .filter(|container| container.state.as_ref().is_some_and(|s| s.running.is_some()))
        .filter_map(|container| container.container_id.as_deref())
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, ready: &str, container: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "uid": uid},
            "status": {
                "phase": "Running", "conditions": [{"type": "Ready", "status": ready}],
                "containerStatuses": [{"name": "app", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                    "containerID": container, "state": {"running": {}}}]
            }
        }))
        .unwrap()
    }

    #[test]
    fn ready_as_before_the_restart_is_not_ready_again() {
        let before = pod("u", "True", "c://1");
        let settled = |now: Option<&Pod>| settled(&before, now, None);
        assert!(!settled(Some(&before)), "the status is still that of before");
        assert!(!settled(Some(&pod("u", "False", "c://2"))));
        assert!(settled(Some(&pod("u", "True", "c://2"))));
        assert!(settled(Some(&pod("v", "False", "c://1"))), "another pod");
        assert!(settled(None));
    }

    #[test]
    fn of_a_restart_of_one_container_the_others_are_not_waited_for() {
        let with_proxy = |app: &str, proxy: &str| {
            let mut pod = pod("u", "True", app);
            let status = pod.status.get_or_insert_default();
            let mut sidecar = status.container_statuses.iter().flatten().next().unwrap().clone();
            sidecar.name = "proxy".to_owned();
            sidecar.container_id = Some(proxy.to_owned());
            status.init_container_statuses = Some(vec![sidecar]);
            pod
        };
        let before = with_proxy("c://1", "c://2");
        for (app, proxy, named, expected) in [
            ("c://3", "c://2", "app", true),
            ("c://1", "c://3", "app", false),
            ("c://1", "c://3", "proxy", true),
            ("c://3", "c://2", "proxy", false),
        ] {
            let now = with_proxy(app, proxy);
            assert_eq!(
                settled(&before, Some(&now), Some(named)),
                expected,
                "{app} {proxy} {named}"
            );
        }
    }

    #[test]
    fn a_pod_that_ran_to_its_end_after_the_restart_is_not_called_ready() {
        let mut now = pod("u", "False", "c://2");
        now.status.get_or_insert_default().phase = Some("Succeeded".to_owned());
        assert!(settled(&pod("u", "True", "c://1"), Some(&now), None));
        assert_eq!([outcome(&now), outcome(&pod("u", "True", "c://2"))], ["has ended", "is ready"]);
    }

    #[test]
    fn why_nobody_takes_a_request_up_is_shown_until_somebody_does() {
        let shown = |status: serde_json::Value| -> Vec<String> {
            let status: PodRestartStatus = serde_json::from_value(status).unwrap();
            lines(&status).into_iter().map(|(_, line)| line).collect()
        };
        let silent = "node b is not ready: nobody takes it up until its agent answers";
        assert_eq!(shown(json!({"message": silent})), [format!("Pending: {silent}")]);
        assert!(shown(json!({})).is_empty());
        let step = json!({"at": "2026-01-01T00:00:00.000000Z", "phase": "Running", "message": "stopping", "count": 1});
        let begun = json!({"phase": "Running", "message": "stopping", "steps": [step]});
        assert_eq!(shown(begun), ["Running: stopping (after 0.000s)"]);
    }

    #[test]
    fn each_step_is_shown_with_the_time_it_came_after() {
        let status: PodRestartStatus = serde_json::from_value(json!({"steps": [
            {"at": "2026-01-01T00:00:00.000000Z", "phase": "Running", "message": "stopping", "count": 1},
            {"at": "2026-01-01T00:00:02.050000Z", "phase": "Succeeded", "message": "runs", "count": 1}
        ]}))
        .unwrap();
        let shown: Vec<String> = lines(&status).into_iter().map(|(_, line)| line).collect();
        assert_eq!(shown, ["Running: stopping (after 0.000s)", "Succeeded: runs (after 2.050s)"]);
    }
}
