//! Random worlds: watches that lag, break and list stale, answers that are lost, pods that come up
//! and go in any order. What must always hold is checked after every write; then the faults stop,
//! and everything must come to rest in the right place.

use proptest::prelude::*;
use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{ResourceKind, ViewObject, pods};
use rekindle_types::TickDuration;
use serde_json::json;

use crate::api::FakeApi;
use crate::build::{deployment, replica_set};
use crate::world::{Answer, World, id};

/// A Deployment is scaled to fewer pods than this.
pub(crate) const SIZES: u8 = 7;

/// One thing that happens; the numbers choose among what there is.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    WatchShows(u8),
    KeyIsWorked(u8, Answer),
    Relist(u8, u8),
    KubeletAt(u8),
    PodLosesReadiness(u8),
    PodFails(u8),
    UserDeletesPod(u8),
    ImageChanges(u8),
    Scales(u8),
    TimePasses(u8),
}

use Happening::{
    ImageChanges, KeyIsWorked, KubeletAt, PodFails, PodLosesReadiness, Relist, Scales, TimePasses,
    UserDeletesPod, WatchShows,
};

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![8 => Just(Answer::Arrives), 1 => Just(Answer::IsLost), 1 => Just(Answer::NeverSent)]
}

/// Everything that controllers and watches do, faults included.
pub(crate) fn machinery() -> impl Strategy<Value = Happening> {
    prop_oneof![
        8 => any::<u8>().prop_map(WatchShows),
        8 => (any::<u8>(), answer()).prop_map(|(n, a)| KeyIsWorked(n, a)),
        1 => (any::<u8>(), 0..4u8).prop_map(|(kind, lag)| Relist(kind, lag)),
        4 => any::<u8>().prop_map(KubeletAt),
        1 => (0..20u8).prop_map(TimePasses),
    ]
}

pub(crate) fn trouble() -> impl Strategy<Value = Happening> {
    prop_oneof![
        any::<u8>().prop_map(PodLosesReadiness),
        any::<u8>().prop_map(PodFails),
        any::<u8>().prop_map(UserDeletesPod),
    ]
}

impl World {
    pub(crate) fn happens(&mut self, happening: &Happening) {
        let kind = |n: u8| ResourceKind::ALL[usize::from(n) % ResourceKind::ALL.len()];
        match happening {
            WatchShows(n) => {
                let first = usize::from(*n);
                for offset in 0..ResourceKind::ALL.len() {
                    if self
                        .watch_next(ResourceKind::ALL[(first + offset) % ResourceKind::ALL.len()])
                    {
                        break;
                    }
                }
            }
            KeyIsWorked(n, answer) => {
                if self.queue.is_empty() {
                    return;
                }
                let place = usize::from(*n) % self.queue.len();
                let key = self.queue.iter().nth(place).cloned().unwrap();
                self.queue.remove(&key);
                self.work(&key, |_| *answer);
            }
            Relist(n, lag) => self.relist(kind(*n), usize::from(*lag)),
            KubeletAt(n) => {
                if let Some(pod) = self.nth_pod(*n) {
                    self.kubelet_at(&pod);
                }
            }
            PodLosesReadiness(n) => {
                let runs = self.nth_pod(*n).filter(|id| match &self.api.objects[id] {
                    ViewObject::Pod(pod) => !pods::is_finished(pod),
                    _ => false,
                });
                if let Some(pod) = runs {
                    self.set_ready(&pod, "False");
                }
            }
            PodFails(n) => {
                if let Some(pod) = self.nth_pod(*n) {
                    self.api.change(&pod, |pod| pod["status"]["phase"] = json!("Failed"));
                }
            }
            UserDeletesPod(n) => {
                if let Some(pod) = self.nth_pod(*n) {
                    self.api.user_deletes(&pod, DependentPolicy::Background);
                }
            }
            ImageChanges(n) => {
                let image = format!("v{}", n % 3);
                self.api.change(&id(ResourceKind::Deployment, "web"), |d| {
                    d["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
                });
            }
            Scales(n) => {
                let replicas = n % SIZES;
                self.api.change(&id(ResourceKind::Deployment, "web"), |d| {
                    d["spec"]["replicas"] = json!(replicas);
                });
            }
            TimePasses(seconds) => {
                self.api.now = self.api.now + TickDuration::from_secs(u64::from(*seconds));
                let due: Vec<_> = self
                    .timers
                    .iter()
                    .filter(|(_, at)| **at <= self.api.now)
                    .map(|(k, _)| k.clone())
                    .collect();
                for key in due {
                    self.timers.remove(&key);
                    self.queue.insert(key);
                }
            }
        }
    }

    fn nth_pod(&self, n: u8) -> Option<rekindle_controllers::ObjectId> {
        let pods = self.api.ids(ResourceKind::Pod, "shop");
        (!pods.is_empty()).then(|| pods[usize::from(n) % pods.len()].clone())
    }

    /// The faults are over, and so are the pauses after what they did (10 minutes at most).
    pub(crate) fn heal(&mut self) {
        for kind in ResourceKind::ALL {
            self.relist(kind, 0);
        }
        self.advance(TickDuration::from_secs(1_200));
        self.converge();
        self.assert_view_is_true();
    }
}

/// A quarter of the usual number of cases, each being a whole world; PROPTEST_CASES raises it.
pub(crate) fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases / 4, ..usual }
}

pub(crate) fn active(api: &FakeApi) -> usize {
    api.pods().iter().filter(|pod| pods::is_active(pod)).count()
}

pub(crate) fn ready(api: &FakeApi) -> usize {
    api.pods().iter().filter(|pod| pods::is_active(pod) && pods::is_ready(pod)).count()
}

/// What the property below found once: the status of a ReplicaSet that was scaled down and up again
/// still counted, as available, a pod that was being given up, and the rollout fell below its
/// minimum.
#[test]
fn a_status_from_before_a_scaling_is_not_relied_on() {
    let happenings = [
        WatchShows(0),
        WatchShows(0),
        WatchShows(0),
        WatchShows(0),
        WatchShows(0),
        WatchShows(0),
        ImageChanges(17),
        WatchShows(0),
        KeyIsWorked(0, Answer::Arrives),
        KeyIsWorked(0, Answer::Arrives),
        WatchShows(0),
        WatchShows(0),
        KeyIsWorked(26, Answer::Arrives),
        ImageChanges(32),
        WatchShows(0),
        WatchShows(0),
        WatchShows(0),
        WatchShows(0),
        KeyIsWorked(112, Answer::Arrives),
        KeyIsWorked(54, Answer::Arrives),
        WatchShows(0),
        WatchShows(0),
        WatchShows(0),
        KeyIsWorked(144, Answer::Arrives),
        KeyIsWorked(70, Answer::Arrives),
        KeyIsWorked(77, Answer::Arrives),
        WatchShows(0),
        WatchShows(0),
        WatchShows(0),
        KeyIsWorked(7, Answer::Arrives),
        KeyIsWorked(32, Answer::Arrives),
        KeyIsWorked(127, Answer::Arrives),
        WatchShows(0),
        KeyIsWorked(0, Answer::Arrives),
        KeyIsWorked(0, Answer::Arrives),
        KeyIsWorked(0, Answer::Arrives),
        WatchShows(0),
        KeyIsWorked(60, Answer::Arrives),
        KeyIsWorked(0, Answer::Arrives),
        KeyIsWorked(0, Answer::Arrives),
        WatchShows(3),
        KeyIsWorked(0, Answer::Arrives),
        KeyIsWorked(0, Answer::Arrives),
        KeyIsWorked(0, Answer::Arrives),
        KeyIsWorked(0, Answer::Arrives),
        KeyIsWorked(0, Answer::Arrives),
        WatchShows(0),
        KubeletAt(15),
        ImageChanges(232),
        WatchShows(0),
        Relist(0, 0),
        WatchShows(0),
        KubeletAt(128),
        WatchShows(0),
        WatchShows(0),
        WatchShows(0),
        WatchShows(0),
        WatchShows(0),
        WatchShows(0),
        WatchShows(0),
        WatchShows(0),
        WatchShows(0),
        WatchShows(0),
        KeyIsWorked(88, Answer::Arrives),
        KeyIsWorked(145, Answer::Arrives),
        KeyIsWorked(0, Answer::NeverSent),
        KeyIsWorked(0, Answer::Arrives),
        KeyIsWorked(11, Answer::Arrives),
        WatchShows(0),
        ImageChanges(101),
        KeyIsWorked(74, Answer::IsLost),
        WatchShows(0),
        WatchShows(0),
        KeyIsWorked(0, Answer::Arrives),
        KeyIsWorked(83, Answer::Arrives),
        ImageChanges(87),
        KeyIsWorked(81, Answer::IsLost),
        WatchShows(3),
        WatchShows(3),
        WatchShows(3),
        KeyIsWorked(71, Answer::Arrives),
        KeyIsWorked(17, Answer::Arrives),
        KeyIsWorked(29, Answer::Arrives),
        WatchShows(0),
    ];
    rollout_within_limits(&happenings);
}

/// The same for a write whose answer was lost: the view did not show it, and the next ReplicaSet
/// was made too large.
#[test]
fn after_a_lost_answer_nothing_is_planned_from_the_old_view() {
    let happenings = [
        WatchShows(0),
        ImageChanges(2),
        WatchShows(0),
        KeyIsWorked(0, Answer::IsLost),
        ImageChanges(181),
        WatchShows(2),
        WatchShows(2),
        KeyIsWorked(0, Answer::Arrives),
    ];
    rollout_within_limits(&happenings);
}

/// A rollout of 4 pods with 25 %/25 %: at most 5 are asked for, and 3 of those that were up are
/// ready at every moment.
fn rollout_within_limits(happenings: &[Happening]) {
    let mut world = World::with_node();
    world.create(deployment("web", 4, "v0"));
    world.converge();
    world.check = Box::new(|api| {
        let sets = api.objects.values().map(|object| match object {
            ViewObject::ReplicaSet(set) => set.spec.replicas.unwrap(),
            _ => 0,
        });
        let asked: i32 = sets.sum();
        assert!(asked <= 5, "{asked} pods are more than replicas + maxSurge");
        assert!(ready(api) >= 3, "{} are fewer than replicas - maxUnavailable", ready(api));
    });
    for happening in happenings {
        world.happens(happening);
    }
    world.heal();
    assert_rolled_out(&world, 4);
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_replica_set_never_has_too_many_pods_and_ends_with_exactly_as_many(
        happenings in prop::collection::vec(prop_oneof![9 => machinery(), 1 => trouble()], 0..250),
    ) {
        let mut world = World::with_node();
        world.create(replica_set("web", 5));
        world.check = Box::new(|api| assert!(active(api) <= 5, "doubles: {} pods", active(api)));
        for happening in &happenings {
            world.happens(happening);
        }
        world.heal();
        prop_assert_eq!(active(&world.api), 5);
        prop_assert_eq!(ready(&world.api), 5);
    }

    #[test]
    fn a_rollout_keeps_its_limits_whatever_lags_or_is_lost(
        happenings in prop::collection::vec(
            prop_oneof![40 => machinery(), 1 => any::<u8>().prop_map(ImageChanges)],
            0..400,
        ),
    ) {
        rollout_within_limits(&happenings);
    }

    #[test]
    fn a_deployment_converges_whatever_happens_to_it(
        happenings in prop::collection::vec(
            prop_oneof![
                30 => machinery(),
                2 => trouble(),
                1 => any::<u8>().prop_map(ImageChanges),
                1 => any::<u8>().prop_map(Scales),
            ],
            0..300,
        ),
    ) {
        let mut world = World::with_node();
        world.create(deployment("web", 3, "v0"));
        for happening in &happenings {
            world.happens(happening);
        }
        world.heal();
        let wanted = world.deployment("web").spec.replicas.unwrap();
        assert_rolled_out(&world, wanted);
    }

    #[test]
    fn a_namespace_empties_whatever_is_in_the_middle_of_happening(
        before in prop::collection::vec(prop_oneof![9 => machinery(), 1 => trouble()], 0..120),
        after in prop::collection::vec(machinery(), 0..120),
    ) {
        let mut world = World::with_node();
        world.create(deployment("web", 3, "v0"));
        world.create(json!({"kind": "ConfigMap", "metadata": {"name": "config"}}));
        for happening in &before {
            world.happens(happening);
        }
        world.api.user_deletes(&id(ResourceKind::Namespace, "shop"), DependentPolicy::Background);
        for happening in &after {
            world.happens(happening);
        }
        world.heal();
        prop_assert!(world.api.objects.keys().all(|id| id.kind == ResourceKind::Node));
    }
}

pub(crate) fn assert_rolled_out(world: &World, wanted: i32) {
    let image = |d: &serde_json::Value| d["spec"]["containers"][0]["image"].clone();
    let template = json!(world.deployment("web").spec.template);
    let status = world.deployment("web").status.clone().unwrap();
    assert_eq!(status.updated_replicas.unwrap_or(0), wanted, "{status:?}");
    assert_eq!(status.available_replicas.unwrap_or(0), wanted, "{status:?}");
    for set in world.replica_sets() {
        let is_new = image(&json!(set.spec.template)) == image(&template);
        assert_eq!(set.spec.replicas, Some(if is_new { wanted } else { 0 }));
    }
}
