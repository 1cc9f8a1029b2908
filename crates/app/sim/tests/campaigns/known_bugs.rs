//! Each known bug, switched on: a campaign in which it shows, and the words in which it is caught.

use rekindle_sim::{
    Behaviour, Campaign, KnownBug, PowerLossSync, WatchRecovery, WorldChange, WorldEvent,
};
use rekindle_types::{ExitStatus, TickDuration};
use serde_json::json;

use crate::made::*;
use crate::passes;

/// A campaign in which this bug shows, and the promise that it breaks. The pods by number: db-0,
/// and the two of web.
fn exposing(bug: KnownBug) -> (&'static str, Campaign) {
    let hangs = Behaviour { hangs: true, ..Behaviour::default() };
    let ended = || WorldEvent::EndContainer(0, ExitStatus::OomKilled);
    match bug {
        KnownBug::CreatedTakenForDead => ("P3", harmed_by_crash(bug, &crashes_only(0))),
        KnownBug::CreatedTakenForRunning => ("P2", harmed_by_crash(bug, &crashes_only(0))),
        KnownBug::SandboxMadeAnew => ("P1", harmed_by_crash(bug, &crashes_only(0))),
        KnownBug::SuccessForgotten => ("P1", harmed_by_crash(bug, &succeeding())),
        KnownBug::AgentRestartEndsAll => ("P1", crashes_only(34)),
        KnownBug::SandboxOfNamesake => {
            ("P1", campaign(&[(60, WorldEvent::DeletePod(0))], Vec::new()))
        }
        KnownBug::ExitNotTold => ("P2", campaign(&[(60, ended())], Vec::new())),
        KnownBug::LastEventLost => {
            let deaf =
                WorldEvent::DeafControllers(TickDuration::from_secs(30), WatchRecovery::Relist);
            ("P2", campaign(&[(60, deaf), (70, scaled())], Vec::new()))
        }
        KnownBug::CountFrozen => ("P3", campaign(&[(60, ended())], Vec::new())),
        KnownBug::GraceCutShort => ("P5", campaign(&[(60, WorldEvent::DeletePod(0))], vec![hangs])),
        KnownBug::HookSkipped => {
            let mut with_hook = campaign(&[(60, WorldEvent::DeletePod(0))], Vec::new());
            for object in &mut with_hook.objects {
                let hook = json!({"preStop": {"exec": {"command": ["true"]}}});
                object["spec"]["template"]["spec"]["containers"][0]["lifecycle"] = hook;
            }
            ("P5", with_hook)
        }
        KnownBug::SandboxLeaked => ("P1", campaign(&[(60, WorldEvent::DeletePod(0))], Vec::new())),
        KnownBug::LadderConcurrencyUnseen => {
            ("P5", two_that_fail_together(json!({"maxConcurrent": 1})))
        }
        KnownBug::LadderRateUnseen => ("P5", two_that_fail_together(json!({"perMinute": 1}))),
        KnownBug::EvictionForced => ("P1", evicting(&[])),
        KnownBug::TolerationUnseen => ("P5", evicting(&[])),
        KnownBug::BackoffInMemory | KnownBug::JournalClaimed => {
            ("P3", crashing(&[(200, WorldEvent::CrashAgent(0))]))
        }
        KnownBug::StatusClaimed => {
            let lost = WorldEvent::LoseNode(0, TickDuration::from_secs(20));
            ("P3", campaign(&[(60, lost), (65, ended())], Vec::new()))
        }
        KnownBug::BackoffByWallTime => ("P3", long_waits(&[(1_080, WorldEvent::CrashAgent(0))])),
        KnownBug::BackoffOfNamesake => ("P3", crashing(&[(200, WorldEvent::DeletePod(0))])),
        KnownBug::PullBackoffOfSandbox => ("P3", without_images()),
        KnownBug::ReadinessForgotten | KnownBug::StartForgotten => {
            ("P12", probed(&[(60, WorldEvent::CrashAgent(0))], Vec::new()))
        }
        KnownBug::SidecarStartForgotten => ("P12", waiting_for_sidecars()),
        KnownBug::ProbeLoopLeaked => ("P12", hanging_at_first()),
        KnownBug::VerdictOfEarlier => ("P12", hanging_at_first()),
        KnownBug::ProbeKillUncounted => ("P3", hanging_at_first()),
        KnownBug::ProbeKillNotTold => ("P2", hanging_at_first()),
        KnownBug::RuleWhileTerminating => ("P1", ruled(&[(60, WorldEvent::DeletePod(0))])),
        KnownBug::EvictionDeletes => ("P5", campaign(&[(60, WorldEvent::Pressure(0))], Vec::new())),
        KnownBug::EndTakenForSuccess => {
            ("P2", campaign(&[(60, WorldEvent::DeletePod(0))], Vec::new()))
        }
        KnownBug::AnsweredUnsynced | KnownBug::ShownUnsynced | KnownBug::RowsUnsynced => {
            let fails = WorldEvent::PowerLoss(PowerLossSync::Before);
            // the last that was answered before power is lost, and what it is lost in
            let labelled = WorldEvent::User(WorldChange::Patch(
                web(),
                json!({"metadata": {"labels": {"a": "b"}}}),
            ));
            ("P8", campaign(&[(60, labelled), (61, fails), (62, scaled())], Vec::new()))
        }
        KnownBug::DeletedUnsynced => {
            let fails = WorldEvent::PowerLoss(PowerLossSync::Before);
            let deleted = WorldEvent::User(WorldChange::Delete(web()));
            ("P8", campaign(&[(61, fails), (62, deleted)], Vec::new()))
        }
        KnownBug::CollectionUnsynced => {
            let fails = WorldEvent::PowerLoss(PowerLossSync::Before);
            ("P8", campaign(&[(61, fails), (62, all_pods_deleted())], Vec::new()))
        }
        KnownBug::CollectionHalfDone => ("P8", campaign(&[(60, all_pods_deleted())], Vec::new())),
        KnownBug::InvalidHalfDone => {
            ("P9", campaign(&[(60, invalid("spec.replicas", -1))], Vec::new()))
        }
        KnownBug::BudgetIgnored => {
            let mut with_budget = campaign(&[(60, WorldEvent::EvictPod(1))], Vec::new());
            with_budget.objects.push(json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
                "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
            }));
            ("P5", with_budget)
        }
    }
}

/// The same with the first death of the agent by which one with that bug does harm.
fn harmed_by_crash(bug: KnownBug, made: &Campaign) -> Campaign {
    let dies = |action: u64| Campaign { crashes: [action].into(), ..made.clone() };
    let harms = |action: &u64| Campaign { bug: Some(bug), ..dies(*action) }.check().is_err();
    dies((0..60).find(harms).expect("one of the actions is that by which it does harm"))
}

/// What is said of a bug, so that no other check of the same promise catches it in place of the one
/// that is meant.
const fn said(bug: KnownBug) -> &'static str {
    match bug {
        KnownBug::CreatedTakenForDead => "restartCount of app is 1, and it was started 1 times",
        KnownBug::AgentRestartEndsAll => "agents that die change the end of ReplicaSet default/web",
        KnownBug::SandboxOfNamesake => "it uses sandbox 0, which was made for the pod with UID",
        KnownBug::ExitNotTold | KnownBug::ProbeKillNotTold | KnownBug::CreatedTakenForRunning => {
            "is said to be ready, and app does not run"
        }
        KnownBug::SandboxMadeAnew => "agents that die change what is done: 4 sandboxes",
        KnownBug::LastEventLost => "Deployment default/web wants 3 pods, and has 2",
        KnownBug::CountFrozen | KnownBug::ProbeKillUncounted | KnownBug::StatusClaimed => {
            "restartCount of app is 0, and it was started 2 times"
        }
        KnownBug::GraceCutShort => "was killed after 10 ms of its grace period of 20000 ms",
        KnownBug::BudgetIgnored => "was evicted, and PodDisruptionBudget default/web wants 2",
        KnownBug::HookSkipped => "got its stop signal before its hook preStop was run",
        KnownBug::SandboxLeaked => "is gone, and its sandbox stands",
        KnownBug::LadderConcurrencyUnseen => "maxConcurrent of RestartLadder default/both is 1",
        KnownBug::LadderRateUnseen => "perMinute of RestartLadder default/both is 1",
        KnownBug::EvictionForced => "runs again, and the one before still does on node-0",
        KnownBug::TolerationUnseen => {
            "was ended for the taints of node-0, and tolerates them still"
        }
        KnownBug::BackoffInMemory | KnownBug::JournalClaimed => {
            "after its end, and its backoff is 160000 ms ("
        }
        KnownBug::BackoffByWallTime => "after its end, and its backoff is 300000 ms (",
        KnownBug::BackoffOfNamesake => "after its end, and its backoff is 0 ms at most",
        KnownBug::PullBackoffOfSandbox => "image app:1 was pulled",
        KnownBug::ReadinessForgotten => "was ready, and is not any more, though it runs",
        KnownBug::StartForgotten | KnownBug::SidecarStartForgotten => {
            "container sidecar (start 1) was started, and its start begins anew"
        }
        KnownBug::ProbeLoopLeaked => "was asked by its readiness probe 6 times in 2 s",
        KnownBug::VerdictOfEarlier => "is ended for its liveness probe, which failed 0 times of 3",
        KnownBug::RuleWhileTerminating => "was started though its pod is to end",
        KnownBug::EvictionDeletes => "a node deletes Pod default/web",
        KnownBug::EndTakenForSuccess => "is said to have succeeded, and container app has not",
        KnownBug::SuccessForgotten => {
            "agents that die change the end of Pod default/once: \"Failed"
        }
        KnownBug::AnsweredUnsynced => "was answered, and revision",
        KnownBug::DeletedUnsynced => "was answered to be deleted, and revision",
        KnownBug::CollectionUnsynced => "was answered to go, and revision",
        KnownBug::CollectionHalfDone => "was answered to go, and stays as it is",
        KnownBug::ShownUnsynced => "was shown by the watch, and revision",
        KnownBug::RowsUnsynced => "/deployments.apps/default/web of revision",
        KnownBug::InvalidHalfDone => {
            "may not be {\"spec\":{\"replicas\":-1}}, and something changes"
        }
    }
}

/// In these, which pass, an agent's death has pods fail in two moments that fail in one without it,
/// so that rightly more is done: half of four replicas have failed and are restarted as a whole,
/// and a Job makes a pod between the two failures. What an agent does twice is caught all the same.
#[test]
fn what_is_done_twice_is_caught_where_a_death_rightly_has_more_done() {
    for seed in [406_084, 408_928] {
        for bug in [KnownBug::AgentRestartEndsAll, KnownBug::SandboxMadeAnew] {
            let failure = Campaign { bug: Some(bug), ..Campaign::of_seed(seed) }.check();
            let failure = failure.expect_err(&format!("seed {seed}: {bug:?} is not caught"));
            let is_meant = failure.message.starts_with("P1: agents that die change ");
            assert!(is_meant, "seed {seed}, {bug:?}: {}", failure.message);
        }
    }
}

#[test]
fn each_known_bug_is_caught_when_it_is_switched_on_and_only_then() {
    for bug in KnownBug::ALL {
        let (promise, campaign) = exposing(bug);
        passes(&campaign);
        let failure = Campaign { bug: Some(bug), ..campaign }.check();
        let failure = failure.expect_err(&format!("{bug:?} is not caught"));
        assert_eq!(failure.promise, promise, "{bug:?}: {}", failure.message);
        assert!(failure.message.contains(said(bug)), "{bug:?}: {}", failure.message);
        // the last that is shown is what is told of, and its number among all steps
        let last = failure.trace.last().unwrap();
        assert!(last.ends_with(&format!("BROKEN {}", failure.message)), "{bug:?}: {last}");
        assert!(failure.step >= failure.trace.len() as u64, "{bug:?}: {}", failure.step);
    }
}
