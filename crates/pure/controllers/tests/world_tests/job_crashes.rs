//! A Job in a world where answers are lost and the controller starts anew with an empty memory
//! between any two writes: every pod that ends is counted once, and never are more pods active than
//! asked for.

use std::collections::BTreeSet;

use proptest::prelude::*;
use rekindle_controllers::{ClusterView, ResourceKind, ViewObject, pods};
use rekindle_types::TickDuration;
use serde_json::json;

use crate::api::{Event, FakeApi};
use crate::build::job;
use crate::job::{conditions, status};
use crate::world::{Answer, World, id};

const COMPLETIONS: i32 = 5;
const PARALLELISM: usize = 3;

#[derive(Clone, Debug)]
enum Happening {
    WatchShows(u8),
    /// A key is worked on until this many writes are done; then the controller crashes, if there
    /// are more.
    WorkUntilCrash(u8, u8),
    KeyIsWorked(u8, Answer),
    PodEnds(u8, Ending),
    TimePasses(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Succeeded,
    Failed,
    /// Failed under condition DisruptionTarget.
    Disrupted,
}

use Happening::{KeyIsWorked, PodEnds, TimePasses, WatchShows, WorkUntilCrash};

fn happening() -> impl Strategy<Value = Happening> {
    let answer = prop_oneof![
        8 => Just(Answer::Arrives), 1 => Just(Answer::IsLost), 1 => Just(Answer::NeverSent)
    ];
    let ending = prop_oneof![
        4 => Just(Ending::Succeeded), 2 => Just(Ending::Failed), 1 => Just(Ending::Disrupted)
    ];
    prop_oneof![
        8 => any::<u8>().prop_map(WatchShows),
        8 => (any::<u8>(), answer).prop_map(|(n, a)| KeyIsWorked(n, a)),
        2 => (any::<u8>(), 0..3u8).prop_map(|(n, writes)| WorkUntilCrash(n, writes)),
        3 => (any::<u8>(), ending).prop_map(|(n, e)| PodEnds(n, e)),
        1 => (0..40u8).prop_map(TimePasses),
    ]
}

impl World {
    fn show_some(&mut self, first: u8) {
        let first = usize::from(first);
        for offset in 0..ResourceKind::ALL.len() {
            if self.watch_next(ResourceKind::ALL[(first + offset) % ResourceKind::ALL.len()]) {
                break;
            }
        }
    }

    /// The controller starts anew: nothing is left of what it knew, and it lists everything.
    fn crash(&mut self) {
        self.view = ClusterView::new();
        self.queue.clear();
        self.timers.clear();
        for kind in ResourceKind::ALL {
            self.relist(kind, 0);
        }
    }

    fn take_key(&mut self, n: u8) -> Option<rekindle_controllers::ControllerKey> {
        if self.queue.is_empty() {
            return None;
        }
        let place = usize::from(n) % self.queue.len();
        let key = self.queue.iter().nth(place).cloned()?;
        self.queue.remove(&key);
        Some(key)
    }

    fn does(&mut self, happening: &Happening) {
        match happening {
            WatchShows(n) => self.show_some(*n),
            KeyIsWorked(n, answer) => {
                if let Some(key) = self.take_key(*n) {
                    self.work(&key, |_| *answer);
                }
            }
            WorkUntilCrash(n, writes) => {
                if let Some(key) = self.take_key(*n) {
                    let mut left = *writes;
                    self.work(&key, |_| {
                        if left == 0 {
                            return Answer::NeverSent;
                        }
                        left -= 1;
                        Answer::Arrives
                    });
                }
                self.crash();
            }
            PodEnds(n, ending) => self.end_pod(*n, *ending),
            TimePasses(seconds) => {
                self.api.now = self.api.now + TickDuration::from_secs(u64::from(*seconds));
                let due: Vec<_> = self
                    .timers
                    .iter()
                    .filter(|(_, at)| **at <= self.api.now)
                    .map(|(key, _)| key.clone())
                    .collect();
                self.queue.extend(due);
            }
        }
    }

    fn end_pod(&mut self, n: u8, ending: Ending) {
        let active: Vec<_> = self
            .api
            .pods()
            .into_iter()
            .filter(|pod| pods::is_active(pod))
            .map(|pod| id(ResourceKind::Pod, pod.metadata.name.as_deref().unwrap()))
            .collect();
        if active.is_empty() {
            return;
        }
        let phase = match ending {
            Ending::Succeeded => "Succeeded",
            Ending::Failed | Ending::Disrupted => "Failed",
        };
        let pod = active[usize::from(n) % active.len()].clone();
        self.api.change(&pod, |pod| {
            pod["status"]["phase"] = json!(phase);
            if ending == Ending::Disrupted {
                pod["status"]["conditions"] =
                    json!([{"type": "DisruptionTarget", "status": "True"}]);
            }
        });
    }

    fn recovers(&mut self) {
        self.crash();
        for _ in 0..100 {
            self.advance(TickDuration::from_secs(700));
            self.converge();
            if conditions(self, "sum").len() == 2 {
                return;
            }
            for n in 0..8 {
                self.end_pod(n, Ending::Succeeded);
            }
        }
        panic!("it does not end: {:?}", status(self, "sum"));
    }
}

/// UIDs of pods that were ever shown in this phase.
fn ever(api: &FakeApi, phase: &str) -> BTreeSet<String> {
    let log = api.log.get(&ResourceKind::Pod).into_iter().flatten();
    let shown = log.filter_map(|event| match event {
        Event::Applied(ViewObject::Pod(pod)) | Event::Deleted(ViewObject::Pod(pod)) => Some(pod),
        Event::Applied(_) | Event::Deleted(_) => None,
    });
    shown
        .filter(|pod| pods::phase(pod) == phase)
        .map(|pod| pod.metadata.uid.clone().unwrap())
        .collect()
}

fn runs_to_its_end(mode: &str, happenings: &[Happening]) {
    let mut world = World::with_node();
    world.create(job(
        "sum",
        json!({"completions": COMPLETIONS, "parallelism": PARALLELISM, "backoffLimit": 1000,
            "completionMode": mode}),
    ));
    world.check = Box::new(|api| {
        let active = api.pods().iter().filter(|pod| pods::is_active(pod)).count();
        assert!(active <= PARALLELISM, "{active} pods are more than parallelism");
    });
    for happening in happenings {
        world.does(happening);
    }
    world.recovers();
    let status = status(&world, "sum");
    assert_eq!(status.succeeded, Some(COMPLETIONS));
    assert_eq!(
        ever(&world.api, "Succeeded").len(),
        usize::try_from(COMPLETIONS).unwrap(),
        "no pod ran for nothing"
    );
    let failed = ever(&world.api, "Failed").len();
    assert_eq!(usize::try_from(status.failed.unwrap_or(0)).unwrap(), failed);
    assert!(conditions(&world, "sum").contains(&"Complete: CompletionsReached".to_owned()));
    for pod in world.api.pods() {
        assert_eq!(pod.metadata.finalizers.iter().flatten().count(), 0);
    }
}

/// Disruptions are ignored, other failures count, for all indexes together or for each.
fn policies_hold(per_index: bool, happenings: &[Happening]) {
    let mut spec = json!({"completions": COMPLETIONS, "parallelism": PARALLELISM,
        "backoffLimit": 1000, "completionMode": "Indexed", "podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": [{"action": "Ignore",
            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}});
    if per_index {
        spec["backoffLimitPerIndex"] = json!(1000);
    }
    let mut world = World::with_node();
    world.create(job("sum", spec));
    world.check = Box::new(|api| {
        let up = api.pods().iter().filter(|pod| !pods::is_finished(pod)).count();
        assert!(
            up <= PARALLELISM,
            "{up} pods, those that are ending too, are more than parallelism"
        );
    });
    for happening in happenings {
        world.does(happening);
    }
    world.recovers();
    let status = status(&world, "sum");
    assert_eq!(status.succeeded, Some(COMPLETIONS));
    let failed = ever(&world.api, "Failed").difference(&disrupted(&world.api)).count();
    assert_eq!(usize::try_from(status.failed.unwrap_or(0)).unwrap(), failed);
    assert_eq!(status.failed_indexes.as_deref(), per_index.then_some(""));
    for pod in world.api.pods() {
        assert_eq!(pod.metadata.finalizers.iter().flatten().count(), 0);
    }
}

/// UIDs of pods that ever had the condition.
fn disrupted(api: &FakeApi) -> BTreeSet<String> {
    let log = api.log.get(&ResourceKind::Pod).into_iter().flatten();
    let shown = log.filter_map(|event| match event {
        Event::Applied(ViewObject::Pod(pod)) | Event::Deleted(ViewObject::Pod(pod)) => Some(pod),
        Event::Applied(_) | Event::Deleted(_) => None,
    });
    shown
        .filter(|pod| pods::condition(pod, "DisruptionTarget").is_some())
        .map(|pod| pod.metadata.uid.clone().unwrap())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    #[test]
    fn every_pod_that_ends_is_counted_once(happenings in prop::collection::vec(happening(), 0..120)) {
        runs_to_its_end("NonIndexed", &happenings);
    }

    #[test]
    fn with_policies_every_failure_is_counted_once_or_ignored(
        happenings in prop::collection::vec(happening(), 0..120), per_index in any::<bool>()
    ) {
        policies_hold(per_index, &happenings);
    }

    #[test]
    fn every_index_succeeds_once(happenings in prop::collection::vec(happening(), 0..120)) {
        runs_to_its_end("Indexed", &happenings);
    }
}
