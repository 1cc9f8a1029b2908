//! One pod where one should be, none where none should be.

use std::sync::Arc;

use rekindle_types::EventSeverity;
use rekindle_types::held::HeldPod;

use super::places::{DaemonNode, DaemonNodes, DaemonPod, NodeFit};
use super::rolling::{self, DaemonSetStrategy};
use super::{COMPONENT, DaemonSetSync, make};
use crate::creation_brake::{self, CreationSeries};
use crate::events::EventNote;
use crate::view::PodActivity;
use crate::{ViewObject, pods};

impl DaemonSetSync<'_> {
    /// Makes what is missing; deletes what has ended, is too many or out of place.
    pub(super) fn manage(&mut self, places: &DaemonNodes<'_>) {
        let strategy = rolling::strategy(self.set, places.wanted);
        for place in &places.all {
            let staying = place.pods.iter().filter(|daemon| daemon.stays());
            match place.fit {
                NodeFit::Wanted if place.pods.is_empty() => self.create(place.node),
                NodeFit::Wanted | NodeFit::Tolerated => self.prune(place, strategy),
                NodeFit::Unfit => staying.for_each(|daemon| self.delete(daemon.pod)),
                NodeFit::Gone => {
                    let waiting = staying.filter(|daemon| pods::node(daemon.pod).is_none());
                    waiting.for_each(|daemon| self.delete(daemon.pod));
                }
            }
        }
    }

    pub(super) fn create(&mut self, node: &str) {
        self.creations.push(make::creation(self.view, self.set, self.hash, node));
    }

    fn prune(&mut self, place: &DaemonNode<'_>, strategy: DaemonSetStrategy) {
        if let [only] = place.pods
            && only.standing == PodActivity::Active
        {
            return; // as on nearly all of many nodes
        }
        let node = place.node;
        let mut running = Vec::new();
        for daemon in place.pods.iter().filter(|daemon| daemon.stays()) {
            match pods::phase(daemon.pod) {
                "Failed" => self.replace_failed(node, daemon.pod),
                "Succeeded" => {
                    self.note(EventSeverity::Normal, "SucceededDaemonPod", node, daemon.pod);
                    self.delete(daemon.pod);
                }
                _ => running.push(daemon),
            }
        }
        match strategy {
            DaemonSetStrategy::Surge(_) if running.is_empty() => {
                let ended =
                    place.pods.iter().any(|daemon| daemon.standing == PodActivity::Finished);
                // Beside one that is going: with a surge a node need not be without a pod.
                if place.fit == NodeFit::Wanted && !ended {
                    self.create(node);
                }
            }
            DaemonSetStrategy::Surge(_) => self.prune_surge(&running),
            DaemonSetStrategy::OnDelete | DaemonSetStrategy::Unavailable(_) => {
                running.iter().skip(1).for_each(|daemon| self.delete(daemon.pod));
            }
        }
    }

    /// At once the first time, later after ever longer pauses: a node that refuses its pod is not
    /// asked in a circle.
    fn replace_failed(&mut self, node: &str, pod: &Arc<HeldPod>) {
        let object = ViewObject::Pod(pod.clone());
        match creation_brake::pause_for(self.view, &object, self.now) {
            Some(pause) => self.waiting.push((CreationSeries::of_object(&object), pause)),
            None => {
                self.note(EventSeverity::Warning, "FailedDaemonPod", node, pod);
                self.delete(pod);
            }
        }
    }

    /// Two pods of a node are right only while the old one is ready and the new one is not
    /// available.
    fn prune_surge(&mut self, running: &[&DaemonPod<'_>]) {
        let (new, mut old): (Vec<&DaemonPod<'_>>, Vec<&DaemonPod<'_>>) =
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

    fn note(
        &mut self,
        severity: EventSeverity,
        reason: &'static str,
        node: &str,
        pod: &Arc<HeldPod>,
    ) {
        let pod = ViewObject::Pod(pod.clone()).id().name;
        let (how, what) = match severity {
            EventSeverity::Warning => ("failed", "kill"),
            EventSeverity::Normal => ("succeeded", "delete"),
        };
        let text = format!("Found {how} daemon pod {pod} on node {node}, will try to {what} it");
        let about = ViewObject::DaemonSet(self.set.clone());
        self.notes.push(EventNote::new(&about, severity, reason, text, COMPONENT));
    }
}
