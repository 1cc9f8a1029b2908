//! The pods of a workload, decided for as one.

use rekindle_ladder::{
    LadderAction, LadderAuthority, LadderGroup, LadderPolicy, LadderSubject, LimitUsage, Occupancy,
    RestartDecision, RestartLimits, RevisionPeers, Situation, decide,
};
use rekindle_types::held::HeldPod;
use rekindle_types::v1alpha1::{
    LadderScope, LedgerPhase, PodRestart, RestartLadder, RestartLedgerStatus, RestartWorkload, Rung,
};
use rekindle_types::{Tick, TickDuration};
use serde_json::{Value, json};

const DAWN: Tick = Tick::from_secs(1_800_000_000);
const GROUP: &str = "keep/job/train";

fn at(secs: u64) -> Tick {
    DAWN + TickDuration::from_secs(secs)
}

fn time(secs: u64) -> Value {
    json!(at(secs).to_time())
}

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object of the kind")
}

/// One container's status.
#[derive(Clone, Copy, Debug)]
enum App {
    /// It runs since then, and was started again so often.
    Runs(u64, u32),
    /// It has failed at this time, for the so many-th time.
    Failed(u64, u32),
}

struct Member {
    name: &'static str,
    uid: &'static str,
    app: App,
}

fn member(name: &'static str, app: App) -> Member {
    Member { name, uid: name, app }
}

fn pod(member: &Member) -> HeldPod {
    let ended = |until: u64| {
        json!({"terminated": {
            "exitCode": 1, "reason": "Error", "startedAt": time(until - 1), "finishedAt": time(until),
        }})
    };
    let (restarts, state) = match member.app {
        App::Runs(since, restarts) => (restarts, json!({"running": {"startedAt": time(since)}})),
        App::Failed(at, times) => (times - 1, ended(at)),
    };
    let is_ready = matches!(member.app, App::Runs(..));
    typed(json!({
        "metadata": {
            "name": member.name, "namespace": "shop", "uid": member.uid, "creationTimestamp": time(0),
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job", "controller": true,
            }],
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "app", "image": "app"}]},
        "status": {"phase": "Running", "startTime": time(0), "containerStatuses": [{
            "name": "app", "image": "app", "imageID": "", "ready": is_ready, "restartCount": restarts,
            "state": state, "lastState": {},
        }]},
    }))
}

fn policy(rungs: Value) -> LadderPolicy {
    let ladder: RestartLadder = typed(json!({
        "metadata": {"name": "keep", "generation": 1},
        "spec": {"selector": {"matchLabels": {"job": "train"}}, "scope": "Group", "rungs": rungs},
    }));
    let policy = LadderPolicy::from_ladder(&ladder).expect("a valid ladder");
    assert_eq!(policy.scope, LadderScope::Group);
    policy
}

/// The ledger and the requests of one group.
struct Group {
    policy: LadderPolicy,
    ledger: Option<RestartLedgerStatus>,
    restarts: Vec<PodRestart>,
    asked: Vec<String>,
}

impl Group {
    fn new(rungs: Value) -> Self {
        Self { policy: policy(rungs), ledger: None, restarts: Vec::new(), asked: Vec::new() }
    }

    fn look(&mut self, now: u64, members: &[Member]) -> RestartDecision {
        let pods: Vec<HeldPod> = members.iter().map(pod).collect();
        let workload = RestartWorkload { name: GROUP.to_owned(), uid: Some("job".to_owned()) };
        let selector = typed(json!({"matchLabels": {"job": "train"}}));
        let group = LadderGroup::new(workload, "job", "keep-train".to_owned(), selector, &pods);
        let restarts: Vec<&PodRestart> = self.restarts.iter().collect();
        let decision = decide(&Situation {
            now: at(now),
            policy: &self.policy,
            subject: LadderSubject::Group(&group),
            ledger: self.ledger.as_ref(),
            restarts: &restarts,
            others: &Occupancy::default(),
            crowd: &LimitUsage::default(),
            limits: &RestartLimits::default(),
            peers: &RevisionPeers::default(),
            rollback: None,
            authority: LadderAuthority::default(),
        });
        self.ledger = Some(decision.ledger.clone());
        decision
    }

    /// The API shows what was asked for, at this stage.
    fn show(&mut self, decision: &RestartDecision, now: u64, status: Value) {
        let LadderAction::Restart(plan) = &decision.action else {
            panic!("no restart: {:?}", decision.ledger.message)
        };
        self.asked.push(plan.name.clone());
        self.restarts = vec![typed(json!({
            "metadata": {"name": plan.name, "uid": "r", "creationTimestamp": time(now)},
            "spec": plan.spec(), "status": status,
        }))];
    }

    fn said(&self) -> &str {
        self.ledger.as_ref().and_then(|ledger| ledger.message.as_deref()).unwrap_or_default()
    }

    /// How many failures were counted of each pod.
    fn failures(&self) -> Vec<(&str, u64)> {
        let members = self.ledger.iter().flat_map(|ledger| ledger.members.iter().flatten());
        members.map(|member| (member.pod_name.as_str(), member.failures)).collect()
    }
}

fn done(from: u64, until: u64) -> Value {
    json!({"phase": "Succeeded", "startedAt": time(from), "finishedAt": time(until)})
}

#[test]
fn a_failure_of_any_member_asks_for_one_restart_of_all() {
    for failing in ["a", "b", "c"] {
        let mut group = Group::new(json!([{"rung": "Pod", "attempts": 2}]));
        let app = |name| if name == failing { App::Failed(9, 1) } else { App::Runs(1, 0) };
        let members = ["a", "b", "c"].map(|name| member(name, app(name)));
        let decision = group.look(10, &members);
        group.show(&decision, 10, Value::Null);
        let spec = &group.restarts[0].spec;
        assert!(spec.pod_name.is_empty() && spec.selector.is_some());
        assert_eq!(group.restarts[0].subject(), GROUP);
        assert_eq!(spec.rung(), Rung::Pod);
        let expected = format!(
            "container \"{failing}/app\" exited with 1: restarting the whole pod (1 of 2) in all pods of the group, as one"
        );
        assert!(group.said().starts_with(&expected), "{}", group.said());
        let counted = ["a", "b", "c"].map(|name| (name, u64::from(name == failing)));
        assert_eq!(group.failures(), counted);
        let again = group.look(11, &members);
        assert_eq!(again.action, LadderAction::None, "it is there");
    }
}

#[test]
fn failures_of_several_members_use_up_the_attempts_of_one_ledger() {
    let mut group =
        Group::new(json!([{"rung": "Container", "attempts": 2}, {"rung": "Containers"}]));
    let first = group.look(10, &[member("a", App::Failed(9, 1)), member("b", App::Runs(1, 0))]);
    assert_eq!(first.action, LadderAction::None, "left to its own restart: {}", group.said());
    let second = group.look(12, &[member("a", App::Runs(10, 1)), member("b", App::Failed(11, 1))]);
    assert_eq!(second.action, LadderAction::None, "{}", group.said());
    let third = group.look(14, &[member("a", App::Failed(13, 2)), member("b", App::Runs(12, 1))]);
    group.show(&third, 14, Value::Null);
    assert_eq!(group.failures(), [("a", 2), ("b", 1)]);
    assert_eq!(third.ledger.rung, Some(Rung::Containers));
}

#[test]
fn what_the_restart_of_the_group_ends_is_no_failure_of_any_member() {
    let mut group = Group::new(json!([{"rung": "Pod", "attempts": 2}]));
    let before = [member("a", App::Failed(9, 1)), member("b", App::Runs(1, 0))];
    let decision = group.look(10, &before);
    group.show(&decision, 10, json!({"phase": "Running", "startedAt": time(10)}));
    let stopped = [member("a", App::Failed(9, 1)), member("b", App::Failed(12, 1))];
    assert_eq!(group.look(13, &stopped).action, LadderAction::None);
    assert_eq!(group.failures(), [("a", 1), ("b", 0)]);
    group.restarts[0].status = Some(typed(done(10, 15)));
    group.look(16, &[member("a", App::Runs(15, 1)), member("b", App::Runs(15, 1))]);
    assert_eq!(group.failures(), [("a", 1), ("b", 0)]);
    // now b fails by itself
    let anew = group.look(20, &[member("a", App::Runs(15, 1)), member("b", App::Failed(19, 2))]);
    assert!(matches!(anew.action, LadderAction::Restart(_)), "{}", group.said());
    assert_eq!(group.failures(), [("a", 1), ("b", 1)]);
}

#[test]
fn while_a_group_is_under_way_no_second_one_is_asked_for() {
    let mut group = Group::new(json!([{"rung": "Pod", "attempts": 9}]));
    let first = group.look(10, &[member("a", App::Failed(9, 1)), member("b", App::Runs(1, 0))]);
    group.show(&first, 10, json!({"phase": "Running", "startedAt": time(10)}));
    let crashed = group.look(20, &[member("a", App::Failed(19, 2)), member("b", App::Runs(15, 1))]);
    assert_eq!(crashed.action, LadderAction::None);
    assert_eq!(group.failures(), [("a", 1), ("b", 0)], "it is answered when the group is over");
}

/// What of `a` was seen while its group was under way, from second 10 to 30.
#[test]
fn a_failure_after_a_member_has_started_again_is_answered_when_its_group_is_over() {
    for (while_under_way, after, failures, is_asked) in [
        // it ran again at 15, and failed by itself
        (vec![(20, App::Failed(19, 2))], App::Failed(19, 2), 2, true),
        // twice, and one of them was seen only afterwards
        (vec![(20, App::Failed(19, 2))], App::Failed(29, 3), 3, true),
        (vec![], App::Failed(29, 3), 3, true),
        // the same end is seen again and again
        (vec![(20, App::Failed(19, 2)), (21, App::Failed(19, 2))], App::Failed(19, 2), 2, true),
        // what the restart has ended is no failure of its own
        (vec![(12, App::Runs(10, 1))], App::Runs(15, 1), 1, false),
    ] {
        let mut group = Group::new(json!([{"rung": "Pod", "attempts": 9}]));
        let b = || member("b", App::Runs(1, 0));
        let first = group.look(10, &[member("a", App::Failed(9, 1)), b()]);
        group.show(&first, 10, json!({"phase": "Running", "startedAt": time(10)}));
        for (now, app) in &while_under_way {
            let seen = group.look(*now, &[member("a", *app), b()]);
            assert_eq!(seen.action, LadderAction::None, "a second group would be refused");
            assert_eq!(group.failures()[0], ("a", 1));
        }
        group.restarts[0].status = Some(typed(done(10, 30)));
        let over = group.look(31, &[member("a", after), b()]);
        assert_eq!(group.failures()[0], ("a", failures), "{while_under_way:?} {after:?}");
        let asked = matches!(over.action, LadderAction::Restart(_));
        assert_eq!(asked, is_asked, "{while_under_way:?} {after:?}: {}", group.said());
        let again = group.look(32, &[member("a", after), b()]);
        assert_eq!(group.failures()[0], ("a", failures), "once");
        assert_eq!(again.ledger.failures_total, over.ledger.failures_total);
    }
}

#[test]
fn a_group_that_never_heals_is_exhausted_once_for_all_its_pods() {
    let rungs = json!([{"rung": "Containers"}, {"rung": "Pod"}, {"rung": "Recreate"}]);
    let mut group = Group::new(rungs);
    let mut now = 10;
    for count in 1.. {
        let members =
            [member("a", App::Failed(now, count)), member("b", App::Runs(now - 1, count))];
        let decision = group.look(now + 1, &members);
        if decision.ledger.phase == Some(LedgerPhase::Exhausted) {
            assert_eq!(decision.action, LadderAction::None);
            break;
        }
        group.show(&decision, now + 1, done(now + 1, now + 2));
        now += 10;
    }
    assert_eq!(group.asked.len(), 3, "one request for each rung: {:?}", group.asked);
    assert!(group.asked[2].starts_with("keep-train-recreate-"), "{:?}", group.asked);
}

#[test]
fn a_group_has_recovered_when_all_of_it_has_run_for_the_window() {
    let mut group = Group::new(json!([{"rung": "Pod"}]));
    let first = group.look(10, &[member("a", App::Failed(9, 1)), member("b", App::Runs(1, 0))]);
    group.show(&first, 10, done(10, 15));
    let up = |b: u64| [member("a", App::Runs(15, 1)), member("b", App::Runs(b, 1))];
    let later = group.look(620, &up(300)).ledger;
    assert_eq!(later.phase, Some(LedgerPhase::Climbing), "b runs for 320 s");
    let cleared = group.look(901, &up(300)).ledger;
    assert_eq!(cleared.phase, Some(LedgerPhase::Healthy), "{:?}", cleared.message);
    assert_eq!(cleared.attempts, None);
}

#[test]
fn a_member_that_was_replaced_is_counted_anew_and_the_attempts_go_on() {
    let mut group = Group::new(json!([{"rung": "Pod", "attempts": 3}]));
    let first = group.look(10, &[member("a", App::Failed(9, 4)), member("b", App::Runs(1, 0))]);
    group.show(&first, 10, done(10, 11));
    assert_eq!(group.failures()[0], ("a", 4));
    let new = Member { name: "a", uid: "a2", app: App::Runs(19, 0) };
    group.look(20, &[new, member("b", App::Runs(11, 1))]);
    assert_eq!(group.failures(), [("a", 0), ("b", 0)]);
    let new = Member { name: "a", uid: "a2", app: App::Failed(29, 1) };
    let second = group.look(30, &[new, member("b", App::Runs(11, 1))]);
    assert!(matches!(second.action, LadderAction::Restart(_)));
    let attempts = second.ledger.attempts.unwrap_or_default();
    assert_eq!(attempts[0].at.len(), 2, "{attempts:?}");
}

#[test]
fn a_ladder_for_groups_may_ask_neither_for_rollback_nor_for_failed_pods() {
    let faults = |spec: Value| {
        let mut whole =
            json!({"selector": {"matchLabels": {"a": "b"}}, "rungs": [{"rung": "Pod"}]});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let ladder: RestartLadder = typed(json!({"metadata": {"name": "keep"}, "spec": whole}));
        ladder.spec.faults().into_iter().map(|fault| fault.field).collect::<Vec<_>>()
    };
    let rollback = json!([{"rung": "Pod"}, {"rung": "Rollback"}]);
    let all = json!([{"rung": "Containers"}, {"rung": "Pod"}, {"rung": "Recreate"}, {"rung": "Reschedule"}]);
    for (spec, expected) in [
        (json!({"scope": "Group", "rungs": all}), vec![]),
        (json!({"scope": "Group", "rungs": rollback}), vec!["spec.rungs[1].rung"]),
        (json!({"scope": "Pod", "rungs": rollback}), vec![]),
        (json!({"scope": "Group", "onExhausted": "Fail"}), vec!["spec.onExhausted"]),
        (json!({"scope": "Group", "onExhausted": "Hold"}), vec![]),
        (json!({"onExhausted": "Fail"}), vec![]),
    ] {
        assert_eq!(faults(spec.clone()), expected, "{spec}");
    }
}
