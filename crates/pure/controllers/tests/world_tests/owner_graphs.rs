//! Objects that own each other in any way, circles included: what must go goes, what has an owner
//! left stays, and everything comes to rest. Source: the Kubernetes documentation on garbage
//! collection and on cascading deletion.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{ObjectId, ResourceKind, WriteOperation};
use serde_json::{Value, json};

use crate::chance::{Chance, chance};
use crate::world::{World, id};

/// Who owns whom: objects are numbers, and owners of other numbers are gone long since.
type Owners = BTreeMap<usize, BTreeSet<usize>>;

fn config(n: usize) -> ObjectId {
    id(ResourceKind::ConfigMap, &format!("config-{n}"))
}

/// ConfigMaps that own each other.
fn world_of(owners: &Owners, blocks: impl Fn(usize, usize) -> bool) -> World {
    let mut world = World::with_node();
    for n in owners.keys() {
        world.create(json!({"kind": "ConfigMap", "metadata": {"name": config(*n).name.name}}));
    }
    for (n, of) in owners {
        let references: Vec<Value> = of
            .iter()
            .map(|owner| {
                let uid = world.api.objects.get(&config(*owner)).map(|object| object.uid());
                json!({"apiVersion": "v1", "kind": "ConfigMap", "name": config(*owner).name.name,
                    "uid": uid.unwrap_or("uid-of-nobody"), "blockOwnerDeletion": blocks(*n, *owner)})
            })
            .collect();
        world.api.change(&config(*n), |object| {
            object["metadata"]["ownerReferences"] = json!(references)
        });
    }
    world
}

fn left(world: &World) -> BTreeSet<usize> {
    (0..10).filter(|n| world.api.objects.contains_key(&config(*n))).collect()
}

/// What the documentation says is left of a graph.
struct Model(Owners);

impl Model {
    fn new(owners: &Owners) -> Self {
        let mut model = Self(owners.clone());
        model.collect();
        model
    }

    fn delete(&mut self, n: usize, propagation: DependentPolicy) {
        self.0.remove(&n);
        if propagation == DependentPolicy::Orphan {
            self.0.values_mut().for_each(|owners| {
                owners.remove(&n);
            });
        }
        self.collect();
    }

    /// Who had owners and has none left goes; who has one left forgets the others.
    fn collect(&mut self) {
        loop {
            let there: BTreeSet<usize> = self.0.keys().copied().collect();
            let is_lost = |of: &BTreeSet<usize>| !of.is_empty() && of.is_disjoint(&there);
            let Some(lost) = self.0.iter().find(|(_, of)| is_lost(of)).map(|(n, _)| *n) else {
                self.0.values_mut().for_each(|of| of.retain(|owner| there.contains(owner)));
                return;
            };
            self.0.remove(&lost);
        }
    }

    fn left(&self) -> BTreeSet<usize> {
        self.0.keys().copied().collect()
    }
}

/// A circle in which each owns the next.
fn circle(size: usize) -> Owners {
    (0..size).map(|n| ((n + 1) % size, BTreeSet::from([n]))).collect()
}

#[test]
fn objects_that_own_each_other_go_together_in_the_foreground() {
    for size in 1..=4 {
        let mut world = world_of(&circle(size), |_, _| true);
        world.converge();
        assert_eq!(left(&world).len(), size, "nobody deletes them");
        world.api.user_deletes(&config(0), DependentPolicy::Foreground);
        world.converge();
        assert_eq!(left(&world), BTreeSet::new(), "a circle of {size}");
    }
}

#[test]
fn a_circle_whose_objects_are_all_deleted_in_the_foreground_goes() {
    for size in 2..=3 {
        let mut world = world_of(&circle(size), |_, _| true);
        (0..size).for_each(|n| world.api.user_deletes(&config(n), DependentPolicy::Foreground));
        world.converge();
        assert_eq!(left(&world), BTreeSet::new(), "a circle of {size}");
    }
}

#[test]
fn a_circle_does_not_hold_its_namespace() {
    for size in 1..=3 {
        let mut world = world_of(&circle(size), |_, _| true);
        world.api.user_deletes(&config(0), DependentPolicy::Foreground);
        let namespace = id(ResourceKind::Namespace, "shop");
        world.api.user_deletes(&namespace, DependentPolicy::Background);
        world.converge();
        assert!(!world.api.objects.contains_key(&namespace), "a circle of {size}");
    }
}

#[test]
fn only_who_is_in_a_circle_stops_blocking() {
    let mut owners = circle(2);
    owners.insert(2, BTreeSet::from([1]));
    owners.insert(3, BTreeSet::from([2]));
    let mut world = world_of(&owners, |_, _| true);
    world.converge();
    world.api.user_deletes(&config(0), DependentPolicy::Foreground);
    world.converge();
    let unblocked = world.writes.iter().filter_map(|write| match write {
        WriteOperation::Patch { id, patch, .. }
            if patch["metadata"]["ownerReferences"].is_array() =>
        {
            Some(id)
        }
        _ => None,
    });
    let circle = [config(0), config(1)];
    assert!(unblocked.clone().count() > 0);
    assert!(unblocked.into_iter().all(|id| circle.contains(id)), "{:?}", world.writes);
    assert_eq!(left(&world), BTreeSet::new());
}

/// Documentation of cascading deletion: the collector deletes the dependents; those with
/// `blockOwnerDeletion` are waited for.
#[test]
fn in_the_foreground_a_dependent_that_does_not_block_goes_too_and_is_not_waited_for() {
    let mut owners: Owners = (1..=3).map(|n| (n, BTreeSet::from([0]))).collect();
    owners.insert(0, BTreeSet::new());
    let mut world = world_of(&owners, |n, _| n == 1);
    for held in [1, 2] {
        world.api.change(&config(held), |object| {
            object["metadata"]["finalizers"] = json!(["example.com/wait"]);
        });
    }
    world.converge();
    world.api.user_deletes(&config(0), DependentPolicy::Foreground);
    world.converge();
    assert_eq!(left(&world), BTreeSet::from([0, 1, 2]), "3 goes at once");
    world.api.change(&config(1), |object| object["metadata"]["finalizers"] = json!([]));
    world.converge();
    assert_eq!(left(&world), BTreeSet::from([2]), "nobody waits for 2");
}

fn graph() -> impl Strategy<Value = (Owners, Vec<(usize, usize)>)> {
    // Owners 7 and 8 are never there.
    let owners = prop::collection::btree_set(0..9usize, 0..3);
    let owners = prop::collection::vec(owners, 1..7);
    let graph = owners.prop_map(|owners| owners.into_iter().enumerate().collect());
    (graph, prop::collection::vec((0..7usize, 0..7usize), 0..8))
}

fn propagation() -> impl Strategy<Value = DependentPolicy> {
    prop_oneof![
        Just(DependentPolicy::Background),
        Just(DependentPolicy::Foreground),
        Just(DependentPolicy::Orphan)
    ]
}

/// A user deletes it, if it is there and nobody has deleted it.
fn delete(world: &mut World, n: usize, propagation: DependentPolicy) -> bool {
    let object = world.api.objects.get(&config(n));
    let is_there = object.is_some_and(|object| object.meta().deletion_timestamp.is_none());
    if is_there {
        world.api.user_deletes(&config(n), propagation);
    }
    is_there
}

proptest! {
    #[test]
    fn what_is_left_of_a_graph_is_what_has_an_owner_left(
        (owners, not_blocking) in graph(),
        deletions in prop::collection::vec((0..7usize, propagation()), 0..4),
    ) {
        let mut world = world_of(&owners, |n, owner| !not_blocking.contains(&(n, owner)));
        let mut model = Model::new(&owners);
        world.converge();
        prop_assert_eq!(left(&world), model.left());
        for (n, propagation) in deletions {
            if delete(&mut world, n, propagation) {
                model.delete(n, propagation);
            }
            world.converge();
            prop_assert_eq!(left(&world), model.left());
        }
        let writes = world.writes.len();
        world.advance(rekindle_types::TickDuration::from_secs(600));
        prop_assert_eq!(world.writes.len(), writes, "it is at rest");
    }

    /// Several at a time, while watches lag and answers are lost. Orphaning is left out: what it
    /// leaves depends on who comes first.
    #[test]
    fn the_same_is_left_whatever_lags_or_is_lost(
        (owners, not_blocking) in graph(),
        happenings in prop::collection::vec(
            (chance(), prop::option::weighted(0.1, (0..7usize, any::<bool>()))),
            0..120,
        ),
    ) {
        let mut world = world_of(&owners, |n, owner| !not_blocking.contains(&(n, owner)));
        let mut model = Model::new(&owners);
        for (happening, deletion) in &happenings {
            world.takes(happening);
            if let Some((n, is_foreground)) = deletion {
                let propagation =
                    if *is_foreground { DependentPolicy::Foreground } else { DependentPolicy::Background };
                delete(&mut world, *n, propagation);
                model.delete(*n, propagation);
            }
        }
        for (at, _) in (0..).zip(ResourceKind::ALL) {
            world.takes(&Chance::Relist(at, 0));
        }
        world.converge();
        prop_assert_eq!(left(&world), model.left());
        world.assert_view_is_true();
    }
}
