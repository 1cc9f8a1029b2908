//! What the API's watch shows: told to the controllers and the nodes, and to those who check and
//! count.

use rekindle_controllers::{ResourceKind, ViewObject};
use rekindle_pod::Loss;
use rekindle_reconcile::WatchUpdate;
use rekindle_store::StoreEvent;
use rekindle_types::held;
use rekindle_types::v1alpha1::PodRestart;

use super::World;

impl World {
    /// What the watch shows goes to the planner and to the nodes.
    pub(super) fn see(&mut self, event: &StoreEvent) {
        let stored = match event {
            StoreEvent::Put { object, .. } => object,
            StoreEvent::Delete { previous, .. } => previous,
        };
        let revision = event.revision().0;
        if revision <= self.last_revision {
            let last = self.last_revision;
            self.breaks(&format!("P6: the watch shows revision {revision} after {last}"));
        }
        self.last_revision = revision;
        if let Some(wrong) = self.server.shown(event) {
            self.breaks(&wrong);
        }
        let pod = self.server.seen_pod(stored);
        let object = match &pod {
            Some(pod) => Some(held::HeldPod::from(&**pod).into()),
            None => self.server.read(stored),
        };
        let Some(object) = object else { return };
        match event {
            StoreEvent::Put { .. } => {
                self.availability.applied(&object);
                match &object {
                    ViewObject::PodRestart(restart) => self.note_rung(restart),
                    ViewObject::RestartLadder(ladder) => {
                        let all = self
                            .planner
                            .view()
                            .of_kind(ResourceKind::Pod)
                            .map(|(_, object)| object);
                        self.selected.ladder(ladder, all);
                        self.note_ladder(ladder);
                    }
                    ViewObject::Pod(pod) => {
                        self.selected.pod(pod);
                        self.replaced.seen(pod);
                        self.job_counts.note(pod);
                    }
                    ViewObject::PodDisruptionBudget(budget) => {
                        self.note_budget(budget, event.revision());
                    }
                    ViewObject::Node(node) => self.sentences.note(self.now, node),
                    _ => {}
                }
                match pod {
                    Some(pod) => self.tell_pod(&pod),
                    None => self.tell_nodes(&object),
                }
                self.tell_desk(WatchUpdate::Applied(object));
            }
            StoreEvent::Delete { .. } => {
                self.availability.deleted(&object);
                if let ViewObject::Pod(pod) = &object {
                    self.replaced.deleted(pod);
                    self.vanish(object.uid(), Loss::Deleted);
                }
                if let ViewObject::PodRestart(restart) = &object {
                    self.restart_gone(restart);
                }
                let uid = object.uid().to_owned();
                self.tell_desk(WatchUpdate::Deleted(object.id(), uid));
            }
        }
    }

    fn note_rung(&mut self, restart: &PodRestart) {
        let rung = restart.spec.rung();
        let phase = restart.status.as_ref().and_then(|status| status.phase);
        let uid = restart.metadata.uid.clone().unwrap_or_default();
        self.rungs.insert(uid, (rung, phase));
    }
}
