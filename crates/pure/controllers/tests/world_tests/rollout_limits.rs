//! Rollouts of any shape keep within maxSurge and maxUnavailable, also when the Deployment is
//! scaled up on the way. Source: the API reference of RollingUpdateDeployment: maxSurge rounds up,
//! maxUnavailable down, and both 0 mean that one may be unavailable.
//!
//! Scaled down, each ReplicaSet gives its share, as upstream's do: one whose pods are ready gives
//! some of these, and fewer may be ready for a moment than maxUnavailable lets a rollout have.

use proptest::prelude::*;
use rekindle_controllers::ViewObject;
use serde_json::{Value, json};

use crate::build::deployment;
use crate::random::Happening::{
    self, ImageChanges, KeyIsWorked, KubeletAt, Relist, Scales, TimePasses, WatchShows,
};
use crate::random::{SIZES, assert_rolled_out, config, machinery, ready};
use crate::world::Answer::{Arrives, IsLost};
use crate::world::World;

/// A number of pods, or a part of all.
#[derive(Clone, Copy, Debug)]
enum Share {
    Pods(usize),
    Percent(usize),
}

impl Share {
    fn value(self) -> Value {
        match self {
            Share::Pods(pods) => json!(pods),
            Share::Percent(percent) => json!(format!("{percent}%")),
        }
    }
}

fn share() -> impl Strategy<Value = Share> {
    prop_oneof![(0..4usize).prop_map(Share::Pods), (0..=100usize).prop_map(Share::Percent)]
}

/// What a rollout meets that is scaled on the way.
fn scaled_rollout() -> impl Strategy<Value = Vec<Happening>> {
    let happening = prop_oneof![
        40 => machinery(),
        1 => any::<u8>().prop_map(ImageChanges),
        1 => any::<u8>().prop_map(Scales),
    ];
    prop::collection::vec(happening, 0..250)
}

/// Pods above the wanted number, and below it.
fn limits(size: usize, surge: Share, unavailable: Share) -> (usize, usize) {
    let above = match surge {
        Share::Pods(pods) => pods,
        Share::Percent(percent) => (size * percent).div_ceil(100),
    };
    let below = match unavailable {
        Share::Pods(pods) => pods,
        Share::Percent(percent) => size * percent / 100,
    };
    if above == 0 && below == 0 { (0, 1) } else { (above, below) }
}

/// A rollout that is disturbed by nothing but what lags and is lost, within the widest of the
/// limits of all its sizes.
fn rolls_out(size: usize, surge: Share, unavailable: Share, happenings: &[Happening]) {
    let mut web = deployment("web", i32::try_from(size).unwrap(), "v0");
    web["spec"]["strategy"]["rollingUpdate"] =
        json!({"maxSurge": surge.value(), "maxUnavailable": unavailable.value()});
    let mut world = World::with_node();
    world.create(web);
    world.converge();
    let scaled = happenings.iter().filter_map(|happening| match happening {
        Scales(n) => Some(usize::from(n % SIZES)),
        _ => None,
    });
    let sizes: Vec<usize> = std::iter::once(size).chain(scaled).collect();
    let limits = |size: &usize| (*size, limits(*size, surge, unavailable));
    let asked_max = sizes.iter().map(limits).map(|(size, (above, _))| size + above).max().unwrap();
    let ready_min = sizes.iter().map(limits).map(|(size, (_, below))| size.saturating_sub(below));
    let is_scaled_down = !sizes.is_sorted();
    let ready_min = if is_scaled_down { 0 } else { ready_min.min().unwrap() };
    world.check = Box::new(move |api| {
        let sets = api.objects.values().filter_map(|object| match object {
            ViewObject::ReplicaSet(set) => set.spec.replicas,
            _ => None,
        });
        let asked: i32 = sets.sum();
        assert!(
            asked <= i32::try_from(asked_max).unwrap(),
            "{asked} are asked for, at most {asked_max}"
        );
        assert!(ready(api) >= ready_min, "{} are ready, at least {ready_min}", ready(api));
    });
    for happening in happenings {
        world.happens(happening);
    }
    world.heal();
    let wanted = world.deployment("web").spec.replicas.unwrap();
    assert_rolled_out(&world, wanted);
}

/// What the property below found: the answer to a scaling was lost, then that to a status of the
/// same ReplicaSet, and the first was forgotten about; the next ReplicaSet was made too large.
#[test]
fn of_two_lost_answers_about_an_object_neither_is_forgotten() {
    let happenings = [
        ImageChanges(29),
        WatchShows(0),
        KeyIsWorked(0, Arrives),
        KeyIsWorked(9, Arrives),
        KeyIsWorked(80, Arrives),
        KubeletAt(41),
        Relist(8, 3),
        KeyIsWorked(17, Arrives),
        KeyIsWorked(83, Arrives),
        KeyIsWorked(77, Arrives),
        KeyIsWorked(2, Arrives),
        KeyIsWorked(15, Arrives),
        WatchShows(158),
        WatchShows(96),
        KeyIsWorked(33, Arrives),
        TimePasses(1),
        KeyIsWorked(22, Arrives),
        ImageChanges(42),
        KeyIsWorked(216, Arrives),
        KeyIsWorked(3, Arrives),
        KeyIsWorked(38, Arrives),
        KeyIsWorked(76, Arrives),
        KeyIsWorked(2, Arrives),
        WatchShows(9),
        WatchShows(189),
        KeyIsWorked(68, IsLost),
        WatchShows(0),
        WatchShows(0),
        WatchShows(0),
        WatchShows(0),
        Relist(0, 0),
        ImageChanges(190),
        WatchShows(0),
        WatchShows(0),
        KeyIsWorked(9, IsLost),
        KeyIsWorked(91, Arrives),
    ];
    rolls_out(4, Share::Percent(26), Share::Pods(1), &happenings);
}

/// The same happenings with each scaling made one up, or none.
fn scaled_up(size: usize, happenings: Vec<Happening>) -> Vec<Happening> {
    let mut now = u8::try_from(size).unwrap();
    let up = |happening| match happening {
        Scales(n) => {
            now = now.max(n % SIZES);
            Scales(now)
        }
        other => other,
    };
    happenings.into_iter().map(up).collect()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_rollout_of_any_shape_keeps_its_limits(
        (size, surge, unavailable) in (1..8usize, share(), share()),
        happenings in prop::collection::vec(
            prop_oneof![30 => machinery(), 1 => any::<u8>().prop_map(ImageChanges)],
            0..250,
        ),
    ) {
        rolls_out(size, surge, unavailable, &happenings);
    }

    #[test]
    fn a_rollout_that_is_scaled_up_keeps_the_limits_of_its_sizes(
        (size, surge, unavailable) in (1..usize::from(SIZES), share(), share()),
        happenings in scaled_rollout(),
    ) {
        rolls_out(size, surge, unavailable, &scaled_up(size, happenings));
    }

    #[test]
    fn a_rollout_that_is_scaled_is_never_larger_than_its_sizes_let_it(
        (size, surge, unavailable) in (1..8usize, share(), share()),
        happenings in scaled_rollout(),
    ) {
        rolls_out(size, surge, unavailable, &happenings);
    }
}
