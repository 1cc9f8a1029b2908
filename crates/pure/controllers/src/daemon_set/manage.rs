//! One pod where one should be, none where none should be.

use std::sync::Arc;

use rekindle_types::held::Pod;

use super::places::{Daemon, Fit, Place, Places};
use super::rolling::{self, Strategy};
use super::{COMPONENT, Look, make};
use crate::creation_brake::{self, CreationSeries};
use crate::events::{Note, Severity};
use crate::view::Standing;
use crate::{Object, pods};

impl Look<'_> {
    /// Makes what is missing; deletes what has ended, is too many or out of place.
    pub(super) fn manage(&mut self, places: &Places<'_>) {
        let strategy = rolling::strategy(self.set, places.wanted);
        for place in &places.all {
            let staying = place.pods.iter().filter(|daemon| daemon.stays());
            match place.fit {
                Fit::Wanted if place.pods.is_empty() => self.create(place.node),
                Fit::Wanted | Fit::Tolerated => self.prune(place, strategy),
                Fit::Unfit => staying.for_each(|daemon| self.delete(daemon.pod)),
                Fit::Gone => {
                    let waiting = staying.filter(|daemon| pods::node(daemon.pod).is_none());
                    waiting.for_each(|daemon| self.delete(daemon.pod));
                }
            }
        }
    }

    pub(super) fn create(&mut self, node: &str) {
        self.creations.push(make::creation(self.view, self.set, self.hash, node));
    }

    fn prune(&mut self, place: &Place<'_>, strategy: Strategy) {
        if let [only] = place.pods
            && only.standing == Standing::Active
        {
            return; // as on nearly all of many nodes
        }
        let node = place.node;
        let mut running = Vec::new();
        for daemon in place.pods.iter().filter(|daemon| daemon.stays()) {
            match pods::phase(daemon.pod) {
                "Failed" => self.replace_failed(node, daemon.pod),
                "Succeeded" => {
                    self.note(Severity::Normal, "SucceededDaemonPod", node, daemon.pod);
                    self.delete(daemon.pod);
                }
                _ => running.push(daemon),
            }
        }
        match strategy {
            Strategy::Surge(_) if running.is_empty() => {
                let ended = place.pods.iter().any(|daemon| daemon.standing == Standing::Finished);
                // Beside one that is going: with a surge a node need not be without a pod.
                if place.fit == Fit::Wanted && !ended {
                    self.create(node);
                }
            }
            Strategy::Surge(_) => self.prune_surge(&running),
            Strategy::OnDelete | Strategy::Unavailable(_) => {
                running.iter().skip(1).for_each(|daemon| self.delete(daemon.pod));
            }
        }
    }

    /// At once the first time, later after ever longer pauses: a node that refuses its pod is not
    /// asked in a circle.
    fn replace_failed(&mut self, node: &str, pod: &Arc<Pod>) {
        let object = Object::Pod(pod.clone());
        match creation_brake::pause_for(self.view, &object, self.now) {
            Some(pause) => self.waiting.push((CreationSeries::of_object(&object), pause)),
            None => {
                self.note(Severity::Warning, "FailedDaemonPod", node, pod);
                self.delete(pod);
            }
        }
    }

    /// Two pods of a node are right only while the old one is ready and the new one is not
    /// available.
    fn prune_surge(&mut self, running: &[&Daemon<'_>]) {
        let (new, mut old): (Vec<&Daemon<'_>>, Vec<&Daemon<'_>>) =
            running.iter().copied().partition(|daemon| daemon.is_updated);
        // of the old ones that which serves, when a second change overtakes the first
        old.sort_by_key(|daemon| !daemon.is_ready());
        for daemon in new.iter().skip(1).chain(old.iter().skip(1)) {
            self.delete(daemon.pod);
        }
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (!old.is_ready() || self.is_available(new))
        {
            self.delete(old.pod);
        }
    }

    fn note(&mut self, severity: Severity, reason: &'static str, node: &str, pod: &Arc<Pod>) {
        let pod = Object::Pod(pod.clone()).id().name;
        let (how, what) = match severity {
            Severity::Warning => ("failed", "kill"),
            Severity::Normal => ("succeeded", "delete"),
        };
        let text = format!("Found {how} daemon pod {pod} on node {node}, will try to {what} it");
        let about = Object::DaemonSet(self.set.clone());
        self.notes.push(Note::new(&about, severity, reason, text, COMPONENT));
    }
}
