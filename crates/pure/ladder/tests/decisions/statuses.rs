//! Statuses that the scenarios' world does not show: restart rules, a pod that runs and is not
//! ready, a pod of another revision.

use k8s_openapi::api::core::v1;
use rekindle_ladder::{
    LadderAction, LadderAuthority, LadderPolicy, LadderSubject, LimitUsage, Occupancy,
    RestartDecision, RestartLimits, RevisionPeers, Situation, decide, symptom_of,
};
use rekindle_types::held::{HeldContainerState, HeldPod};
use rekindle_types::v1alpha1::{LedgerPhase, PodRestart, RestartLadder, RestartLedgerStatus, Rung};
use rekindle_types::{Tick, TickDuration};
use serde_json::{Value, json};

const DAWN: Tick = Tick::from_secs(1_800_000_000);

fn at(secs: u64) -> Tick {
    DAWN + TickDuration::from_secs(secs)
}

fn time(secs: u64) -> Value {
    json!(at(secs).to_time())
}

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object of the kind")
}

fn policy(rungs: Value) -> LadderPolicy {
    let ladder: RestartLadder = typed(json!({
        "metadata": {"name": "web", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "window": "10m", "rungs": rungs},
    }));
    LadderPolicy::from_ladder(&ladder).expect("a valid ladder")
}

/// A pod of these containers, each with its spec and its status.
fn pod(restart_policy: &str, containers: &[(Value, Value)]) -> HeldPod {
    let specs: Vec<&Value> = containers.iter().map(|(spec, _)| spec).collect();
    let statuses: Vec<&Value> = containers.iter().map(|(_, status)| status).collect();
    typed(json!({
        "metadata": {"name": "web-0", "namespace": "shop", "uid": "uid-1", "creationTimestamp": time(0)},
        "spec": {"nodeName": "n1", "restartPolicy": restart_policy, "containers": specs},
        "status": {"phase": "Running", "startTime": time(0), "containerStatuses": statuses},
    }))
}

fn spec(name: &str, rules: Value) -> Value {
    json!({"name": name, "image": "app", "restartPolicy": "Never", "restartPolicyRules": rules})
}

fn rule(action: &str, code: i32) -> Value {
    json!({"action": action, "exitCodes": {"operator": "In", "values": [code]}})
}

fn status(name: &str, restarts: u32, state: Value, last: Value) -> Value {
    json!({
        "name": name, "image": "app", "imageID": "", "ready": true, "restartCount": restarts, "state": state,
        "lastState": last,
    })
}

fn running(since: u64) -> Value {
    json!({"running": {"startedAt": time(since)}})
}

fn ended(code: i32, from: u64, until: u64) -> Value {
    json!({"terminated": {"exitCode": code, "reason": "Error", "startedAt": time(from), "finishedAt": time(until)}})
}

fn look(
    policy: &LadderPolicy,
    pod: &HeldPod,
    ledger: Option<&RestartLedgerStatus>,
    now: u64,
) -> RestartDecision {
    look_among(policy, pod, ledger, &[], now)
}

/// With these requests for the pod.
fn look_among(
    policy: &LadderPolicy,
    pod: &HeldPod,
    ledger: Option<&RestartLedgerStatus>,
    restarts: &[&PodRestart],
    now: u64,
) -> RestartDecision {
    let (others, crowd, peers) =
        (Occupancy::default(), LimitUsage::default(), RevisionPeers::default());
    decide(&Situation {
        now: at(now),
        policy,
        subject: LadderSubject::Pod(pod),
        ledger,
        restarts,
        others: &others,
        crowd: &crowd,
        limits: &RestartLimits::default(),
        peers: &peers,
        rollback: None,
        authority: LadderAuthority::default(),
    })
}

fn said(decision: &RestartDecision) -> &str {
    decision.ledger.message.as_deref().unwrap_or_default()
}

#[test]
fn what_a_restart_rule_starts_again_climbs_and_what_none_answers_stays_as_it_ended() {
    let policy = policy(json!([{"rung": "Container"}, {"rung": "Pod"}]));
    let end = |code, attempt: u32| {
        let state = ended(code, 1, 2);
        pod(
            "Never",
            &[(
                spec("app", json!([rule("Restart", 42)])),
                status("app", attempt, state, json!({})),
            )],
        )
    };
    let first = look(&policy, &end(42, 0), None, 3);
    let expected = "container \"app\" exited with 42 (a restart rule starts it again): left to the container's own restart (1 of 1)";
    assert!(said(&first).starts_with(expected), "{}", said(&first));
    let second = look(&policy, &end(42, 1), Some(&first.ledger), 4);
    assert_eq!(second.ledger.rung, Some(Rung::Pod), "{}", said(&second));
    let unseen = look(&policy, &end(42, 2), Some(&first.ledger), 4);
    assert_eq!(unseen.ledger.failures_total, 3, "each was started again by the rule");
    let other = look(&policy, &end(1, 0), None, 3);
    assert_eq!(other.ledger.phase, Some(LedgerPhase::Holding));
    assert!(said(&other).ends_with("its restartPolicy is Never, so it stays as it ended"));
}

#[test]
fn a_rule_may_start_again_what_succeeded_and_an_init_container_that_did_is_left_alone() {
    let policy = policy(json!([{"rung": "Container"}]));
    let rules = || json!([rule("Restart", 0)]);
    let succeeded = || status("app", 0, ended(0, 1, 2), json!({}));
    let regular = pod("OnFailure", &[(spec("app", rules()), succeeded())]);
    assert_eq!(look(&policy, &regular, None, 3).ledger.failures_total, 1);
    let mut init = pod("OnFailure", &[(spec("app", rules()), succeeded())]);
    let (spec, status) = (init.spec.as_mut(), init.status.as_mut());
    let spec = std::sync::Arc::make_mut(spec.expect("a spec"));
    spec.init_containers = std::mem::take(&mut spec.containers);
    let status = status.expect("a status");
    status.init_container_statuses = status.container_statuses.take();
    assert_eq!(look(&policy, &init, None, 3).ledger, RestartLedgerStatus::default());
}

/// Container `trainer` asks for a restart of all, at 100 s; the others have run since the beginning
/// and are ended at 102 s.
fn all_restarted(others: &[Value], trainer: Value) -> HeldPod {
    let rules = || json!([rule("RestartAllContainers", 88)]);
    let others = others.iter().enumerate().map(|(number, state)| {
        let name = format!("side-{number}");
        let of_it = match state["terminated"].is_null() {
            true => status(&name, 1, state.clone(), ended(137, 0, 102)),
            false => status(&name, 0, state.clone(), json!({})),
        };
        (spec(&name, json!([rule("Restart", 137)])), of_it)
    });
    let all: Vec<(Value, Value)> = others.chain([(spec("trainer", rules()), trainer)]).collect();
    pod("Always", &all)
}

#[test]
fn one_end_that_restarts_all_containers_is_one_failure() {
    let policy = policy(json!([{"rung": "Container", "attempts": 3}, {"rung": "Pod"}]));
    let (asks, runs) = (ended(88, 0, 100), running(0));
    let trainer = || status("trainer", 0, asks.clone(), json!({}));
    let again = || status("trainer", 1, running(103), asks.clone());
    let killed = ended(137, 0, 102);
    // one after the other, as a node that writes its status often shows it
    let mut ledger = None;
    for (others, trainer, now) in [
        (vec![runs.clone(), runs.clone(), runs.clone()], trainer(), 100),
        (vec![killed.clone(), runs.clone(), killed.clone()], trainer(), 102),
        (vec![killed.clone(); 3], again(), 103),
        (vec![running(103), running(103), running(104)], again(), 104),
    ] {
        let others =
            if now == 100 { others.iter().map(|_| runs.clone()).collect() } else { others };
        let mut pod = all_restarted(&others, trainer);
        if now == 100 {
            for status in
                pod.status.iter_mut().flat_map(|s| s.container_statuses.iter_mut().flatten())
            {
                if status.name != "trainer" {
                    (status.restart_count, status.last_state) = (0, HeldContainerState::Unsaid);
                }
            }
        }
        let decision = look(&policy, &pod, ledger.as_ref(), now);
        assert_eq!(decision.ledger.failures_total, 1, "{now}: {}", said(&decision));
        ledger = Some(decision.ledger);
    }
    // all at once, as one that writes it seldom does
    let pod = all_restarted(&[running(103), killed.clone(), running(103)], again());
    let decision = look(&policy, &pod, None, 104);
    assert_eq!(decision.ledger.failures_total, 1, "{}", said(&decision));
    assert!(
        said(&decision)
            .contains("\"trainer\" exited with 88 (a restart rule restarts all containers)")
    );
    let symptom = format!("{:?}", symptom_of(&pod, None, at(104), TickDuration::from_secs(600)));
    assert!(symptom.contains("trainer"), "{symptom}");
}

#[test]
fn what_ends_by_itself_beside_a_restart_of_all_containers_has_failed() {
    let policy = policy(json!([{"rung": "Container", "attempts": 9}, {"rung": "Pod"}]));
    let again = status("trainer", 1, running(103), ended(88, 0, 100));
    for (what, end) in [("before", ended(137, 0, 90)), ("after", ended(137, 103, 110))] {
        let pod = all_restarted(&[end], again.clone());
        assert_eq!(look(&policy, &pod, None, 120).ledger.failures_total, 2, "{what}");
    }
}

#[test]
fn while_all_containers_are_being_restarted_what_ran_before_is_no_failure() {
    let policy = policy(json!([{"rung": "Container", "attempts": 9}]));
    let look_at = |end: Value| {
        let mut pod = pod(
            "Always",
            &[(json!({"name": "app", "image": "app"}), status("app", 0, end, json!({})))],
        );
        let status = pod.status.as_mut().expect("a status");
        status.conditions = Some(vec![typed(json!({
            "type": "AllContainersRestarting", "status": "True", "lastTransitionTime": time(100),
        }))]);
        look(&policy, &pod, None, 120).ledger.failures_total
    };
    assert_eq!(look_at(ended(137, 50, 102)), 0);
    assert_eq!(look_at(ended(1, 103, 104)), 1, "it was started again, and crashed");
}

/// The ledger after the rung Pod was in vain, and the pod after that: it runs.
fn after_its_end(policy: &LadderPolicy) -> (RestartLedgerStatus, HeldPod) {
    let app = || json!({"name": "app", "image": "app"});
    let failed = pod("Always", &[(app(), status("app", 0, ended(1, 0, 1), json!({})))]);
    let mut ledger = look(policy, &failed, None, 2).ledger;
    assert_eq!(ledger.rung, Some(Rung::Pod));
    ledger.pending_restart = None;
    let again = pod("Always", &[(app(), status("app", 1, ended(1, 2, 3), json!({})))]);
    ledger = look(policy, &again, Some(&ledger), 4).ledger;
    assert_eq!(ledger.phase, Some(LedgerPhase::Exhausted));
    (ledger, pod("Always", &[(app(), status("app", 2, running(5), ended(1, 2, 3)))]))
}

#[test]
fn a_pod_that_was_never_ready_has_its_attempts_back_and_has_not_recovered() {
    let policy = policy(json!([{"rung": "Pod"}]));
    let (ledger, mut runs) = after_its_end(&policy);
    let recovered = |decision: &RestartDecision| {
        let mut conditions = decision.ledger.conditions.iter().flatten();
        let noted = conditions.any(|c| c.type_ == "Recovered" && c.status == "True");
        (noted, decision.events.iter().any(|event| event.reason == "LadderRecovered"))
    };
    let ready = look(&policy, &runs, Some(&ledger), 700);
    assert_eq!(ready.ledger.phase, Some(LedgerPhase::Healthy));
    assert_eq!(recovered(&ready), (true, true));
    let statuses = runs.status.as_mut().and_then(|s| s.container_statuses.as_mut());
    statuses.expect("statuses")[0].ready = false;
    let unready = look(&policy, &runs, Some(&ledger), 700);
    assert_eq!(
        (unready.ledger.phase, unready.ledger.attempts.as_ref()),
        (Some(LedgerPhase::Healthy), None)
    );
    assert_eq!(recovered(&unready), (false, false));
}

/// A pod that failed once more, with this UID, of this revision of a controller of that kind; of
/// none, what it runs is the revision.
fn of_revision(kind: Option<&str>, uid: &str, revision: &str, attempt: u32, now: u64) -> HeldPod {
    let token = json!([{"name": format!("kube-api-access-{uid}"), "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]);
    let is_labelled = matches!(kind, Some("StatefulSet" | "DaemonSet"));
    let image = if is_labelled { "app" } else { revision };
    let app = json!({"name": "app", "image": image, "volumeMounts": token});
    let mut pod =
        pod("Always", &[(app, status("app", attempt, ended(1, now - 2, now - 1), json!({})))]);
    pod.metadata.uid = Some(uid.to_owned());
    if let Some(kind) = kind {
        let label = ("controller-revision-hash".to_owned(), revision.to_owned());
        pod.metadata.labels = is_labelled.then(|| [label].into());
        pod.metadata.owner_references = Some(vec![typed(json!({
            "apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "owner", "controller": true,
        }))]);
    }
    pod
}

#[test]
fn a_mended_revision_is_not_exhausted_by_the_one_before() {
    let policy = policy(json!([{"rung": "Container"}]));
    let edited_in_place = [Some("ReplicationController"), Some("ReplicaSet"), None];
    for kind in [Some("StatefulSet"), Some("DaemonSet")].into_iter().chain(edited_in_place) {
        let of = |uid: &str, revision: &str, attempt, now| {
            of_revision(kind, uid, revision, attempt, now)
        };
        let first = look(&policy, &of("uid-1", "one", 0, 22), None, 22);
        let second = look(&policy, &of("uid-1", "one", 1, 23), Some(&first.ledger), 23);
        assert_eq!(second.ledger.phase, Some(LedgerPhase::Exhausted), "{kind:?}");
        let mut exhausted = second.ledger;
        exhausted.in_vain = Some(Rung::Pod);
        // the same revision comes back under another UID: it stays exhausted
        let same = look(&policy, &of("uid-2", "one", 0, 1_000), Some(&exhausted), 1_000);
        assert_eq!(same.ledger.phase, Some(LedgerPhase::Exhausted), "{kind:?}");
        assert_eq!(same.ledger.in_vain, Some(Rung::Pod), "{kind:?}");
        let mended = look(&policy, &of("uid-2", "two", 0, 1_000), Some(&exhausted), 1_000);
        assert_eq!(mended.ledger.phase, Some(LedgerPhase::Climbing), "{kind:?}: {}", said(&mended));
        assert!(said(&mended).contains("left to the container's own restart (1 of 1)"), "{kind:?}");
        assert_eq!(mended.ledger.in_vain, None, "{kind:?}");
        assert!(mended.ledger.decisions.iter().flatten().count() > 2, "its history stays");
        let untouched = mended.ledger.conditions.iter().flatten().all(|c| c.status == "False");
        assert!(untouched, "the webhook is told anew");
    }
}

#[test]
fn what_is_one_revision_by_itself_is_asked_for_none() {
    let policy = policy(json!([{"rung": "Container"}]));
    for (kind, label) in
        [("ReplicaSet", Some("pod-template-hash")), ("Job", None), ("Rollout", None)]
    {
        let mut pod = of_revision(Some(kind), "uid-1", "one", 0, 22);
        pod.metadata.labels = label.map(|label| [(label.to_owned(), "5d4f".to_owned())].into());
        assert_eq!(look(&policy, &pod, None, 22).ledger.revision, None, "{kind}");
    }
}

#[test]
fn what_exhausts_the_ladder_is_the_revision_that_failed_last() {
    let policy = policy(json!([{"rung": "Container"}]));
    let of =
        |uid: &str, revision: &str, now| of_revision(Some("StatefulSet"), uid, revision, 0, now);
    let before = look(&policy, &of("uid-1", "one", 22), None, 22);
    let after = of("uid-2", "two", 30);
    let exhausted = look(&policy, &after, Some(&before.ledger), 30);
    assert_eq!(
        exhausted.ledger.phase,
        Some(LedgerPhase::Exhausted),
        "attempts inside the window count"
    );
    let again = look(&policy, &after, Some(&exhausted.ledger), 31);
    assert_eq!(again.ledger.phase, Some(LedgerPhase::Exhausted));
}

#[test]
fn an_image_that_is_mended_in_place_is_another_revision_of_a_pod_without_a_controller() {
    let policy = policy(json!([{"rung": "Container"}]));
    let first = look(&policy, &of_revision(None, "uid-1", "one", 0, 22), None, 22);
    let second = look(&policy, &of_revision(None, "uid-1", "one", 1, 23), Some(&first.ledger), 23);
    assert_eq!(second.ledger.phase, Some(LedgerPhase::Exhausted));
    let mended = look(&policy, &of_revision(None, "uid-1", "two", 1, 23), Some(&second.ledger), 24);
    assert_eq!(mended.ledger.phase, Some(LedgerPhase::Climbing));
    assert!(said(&mended).contains("every rung may be tried again"), "{}", said(&mended));
    let again = look(&policy, &of_revision(None, "uid-1", "two", 1, 23), Some(&mended.ledger), 24);
    assert_eq!(again.ledger, mended.ledger, "deciding twice changes nothing");
}

#[test]
fn a_pod_that_does_not_fail_has_no_ledger_for_the_sake_of_its_revision() {
    let policy = policy(json!([{"rung": "Container"}]));
    let mut well = of_revision(Some("StatefulSet"), "uid-1", "one", 0, 22);
    let statuses = well.status.as_mut().and_then(|s| s.container_statuses.as_mut());
    let runs: v1::ContainerState = typed(running(1));
    statuses.expect("statuses")[0].state = runs.into();
    assert_eq!(look(&policy, &well, None, 50).ledger, RestartLedgerStatus::default());
}

#[test]
fn what_its_node_ended_fails_otherwise_than_what_was_killed_by_somebody_and_alike_whatever_its_exit_code()
 {
    let symptom = |code: i32, message: &str| {
        let ended = json!({"terminated": {
            "exitCode": code, "reason": "Error", "message": message, "startedAt": time(10), "finishedAt": time(60),
        }});
        let web = (json!({"name": "web", "image": "app"}), status("web", 0, ended, json!({})));
        let (symptom, _) =
            symptom_of(&pod("Always", &[web]), None, at(61), TickDuration::from_secs(600))
                .expect("it has failed");
        symptom
    };
    let liveness = |said: &str| format!("Ended by its node: liveness probe failed (\"{said}\")");
    let killed = symptom(137, "");
    assert_ne!(symptom(137, &liveness("stale lock")), killed);
    assert_eq!(symptom(137, &liveness("stale lock")), symptom(143, &liveness("503")));
    assert_ne!(
        symptom(137, &liveness("503")),
        symptom(137, "Ended by its node: startup probe failed")
    );
    assert_eq!(symptom(137, "out of luck"), killed);
}

/// Its finished requests stay for ten minutes.
#[test]
fn a_ladder_whose_ledger_was_deleted_asks_by_a_name_that_no_request_has_yet() {
    let policy = policy(json!([{"rung": "Pod", "attempts": 2}]));
    let app =
        (json!({"name": "app", "image": "app"}), status("app", 1, running(5), ended(1, 1, 4)));
    let pod = pod("Always", &[app]);
    let asked = |decision: &RestartDecision| match &decision.action {
        LadderAction::Restart(plan) => plan.name.clone(),
        other => panic!("{other:?}: {}", said(decision)),
    };
    let first = asked(&look(&policy, &pod, None, 6));
    let done = |name: &str| -> PodRestart {
        typed(json!({
            "metadata": {"name": name, "namespace": "shop", "creationTimestamp": time(2)},
            "spec": {"podName": "web-0", "podUID": "uid-1", "rung": "Pod", "ladderName": "web"},
            "status": {"phase": "Succeeded", "startedAt": time(2), "finishedAt": time(3)},
        }))
    };
    let before = done(&first);
    let again = look_among(&policy, &pod, None, &[&before], 6);
    assert_ne!(asked(&again), first, "nobody would carry it out");
    let unseen = look_among(&policy, &pod, Some(&again.ledger), &[&before], 7);
    assert_eq!(asked(&unseen), asked(&again), "until it is seen");
    let second = done(&asked(&again));
    let third = asked(&look_among(&policy, &pod, None, &[&before, &second], 6));
    assert!(third != first && third != asked(&again), "{third}");
}

/// A budget held the rung back, and somebody restarts the pod by hand meanwhile.
#[test]
fn a_rung_that_was_held_back_waits_for_what_comes_of_a_restart_that_began_since() {
    let policy = policy(json!([{"rung": "Pod"}]));
    let app = (json!({"name": "app", "image": "app"}), status("app", 0, ended(1, 1, 4), json!({})));
    let pod = pod("Always", &[app]);
    let crowd = LimitUsage { namespace: vec![at(5); 30], ..LimitUsage::default() };
    let (others, limits, peers) =
        (Occupancy::default(), RestartLimits::default(), RevisionPeers::default());
    let now = |secs: u64, ledger, restarts: &[&PodRestart], crowd: &LimitUsage| {
        decide(&Situation {
            now: at(secs),
            policy: &policy,
            subject: LadderSubject::Pod(&pod),
            ledger,
            restarts,
            others: &others,
            crowd,
            limits: &limits,
            peers: &peers,
            rollback: None,
            authority: LadderAuthority::default(),
        })
    };
    let held = now(6, None, &[], &crowd);
    assert_eq!(held.ledger.held_rung, Some(Rung::Pod), "{}", said(&held));
    let by_hand = |began: u64, phase: &str| -> PodRestart {
        typed(json!({
            "metadata": {"name": "by-hand", "namespace": "shop", "creationTimestamp": time(began)},
            "spec": {"podName": "web-0", "rung": "Pod"},
            "status": {"phase": phase, "podUID": "uid-1", "startedAt": time(began)},
        }))
    };
    let room = LimitUsage::default();
    let asks = |restart: &PodRestart| {
        let decision = now(200, Some(&held.ledger), &[restart], &room);
        matches!(decision.action, LadderAction::Restart(_))
    };
    assert!(!asks(&by_hand(100, "Running")), "two restarts of a pod at once");
    assert!(asks(&by_hand(3, "Running")), "the pod failed after it had begun");
    assert!(asks(&by_hand(100, "Failed")));
    assert!(now(200, Some(&held.ledger), &[], &room).action != LadderAction::None);
}

/// A pod with this status of its only container.
fn app(restarts: u32, state: Value, last: Value) -> HeldPod {
    let app = json!({"name": "app", "image": "app"});
    pod("Always", &[(app, status("app", restarts, state, last))])
}

fn ledger_of(observed: Value) -> RestartLedgerStatus {
    typed(json!({"podUID": "uid-1", "observed": [observed]}))
}

/// A restart of that pod which was begun at second 50.
fn by_hand(rung: &str, phase: &str, over: Option<u64>) -> PodRestart {
    typed(json!({
        "metadata": {"name": "by-hand", "namespace": "shop", "creationTimestamp": time(40)},
        "spec": {"podName": "web-0", "rung": rung},
        "status": {
            "phase": phase, "podUID": "uid-1", "startedAt": time(50), "finishedAt": over.map(time),
        },
    }))
}

/// Seen on Kubernetes 1.36: a kubelet knows no times of a container that went with its sandbox. The
/// operator first saw the request when an agent had begun it.
#[test]
fn what_a_restart_of_the_whole_pod_removes_on_a_cluster_is_no_failure() {
    let policy = policy(json!([{"rung": "Container", "attempts": 1}, {"rung": "Pod"}]));
    let before = ledger_of(json!({"name": "app", "endedAttempts": 0}));
    let unknown = json!({"terminated": {
        "exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": null, "finishedAt": null,
    }});
    // the kubelet counts the next start already
    let gone = app(1, json!({"waiting": {"reason": "ContainerCreating"}}), unknown);
    let failures = |restart: &PodRestart, now: u64| {
        look_among(&policy, &gone, Some(&before), &[restart], now).ledger.failures_total
    };
    assert_eq!(failures(&by_hand("Pod", "Running", None), 51), 0);
    assert_eq!(failures(&by_hand("Pod", "Succeeded", Some(52)), 53), 0);
    for (of_others, now) in [
        (by_hand("Pod", "Succeeded", Some(52)), 70),
        (by_hand("Containers", "Running", None), 51),
        (by_hand("Pod", "Refused", Some(52)), 53),
    ] {
        assert_eq!(failures(&of_others, now), 1, "{of_others:?}");
    }
}

/// The kubelet made one more container in the sandbox while it was stopped. That one never ran, and
/// nothing is shown of it, but it was counted.
#[test]
fn a_start_that_a_restart_of_the_whole_pod_broke_off_is_no_failure() {
    let policy = policy(json!([{"rung": "Container", "attempts": 1}, {"rung": "Pod"}]));
    let before = ledger_of(json!({"name": "app", "endedAttempts": 2, "excusedAttempt": 2}));
    let runs = app(4, json!({"running": {"startedAt": time(52)}}), json!({}));
    let failures = |restart: &PodRestart, now: u64| {
        look_among(&policy, &runs, Some(&before), &[restart], now).ledger.failures_total
    };
    assert_eq!(failures(&by_hand("Pod", "Running", None), 52), 0);
    assert_eq!(failures(&by_hand("Pod", "Succeeded", Some(52)), 53), 0);
    assert_eq!(failures(&by_hand("Containers", "Succeeded", Some(52)), 53), 1);
}

#[test]
fn a_failure_that_is_seen_only_when_a_restart_has_begun_after_it_counts_and_is_answered_by_it() {
    let policy = policy(json!([{"rung": "Pod", "attempts": 5}]));
    let before = ledger_of(json!({"name": "app", "endedAttempts": 2}));
    let running = json!({"running": {"startedAt": time(54)}});
    let decided = |failed_at: u64, restart: &PodRestart| {
        let app = app(3, running.clone(), ended(1, failed_at - 1, failed_at));
        look_among(&policy, &app, Some(&before), &[restart], 55)
    };
    let answered = decided(49, &by_hand("Pod", "Running", None));
    assert_eq!(answered.ledger.failures_total, 1);
    assert_eq!(answered.action, LadderAction::None, "{}", said(&answered));
    assert!(said(&answered).contains("by-hand"), "{}", said(&answered));
    let refused = decided(49, &by_hand("Pod", "Refused", Some(54)));
    assert!(matches!(refused.action, LadderAction::Restart(_)), "{}", said(&refused));
    let later = decided(53, &by_hand("Pod", "Running", None));
    assert!(matches!(later.action, LadderAction::Restart(_)), "{}", said(&later));
}
