//! When metrics are read: every 15 s, in the namespaces that have an autoscaler, and at once when
//! there is a new one. Where none is, nothing is read.

use std::collections::BTreeMap;

use rekindle_controllers::{ObjectChange, ViewObject};
use rekindle_types::{Tick, TickDuration};

/// From one reading to the next (upstream's `--horizontal-pod-autoscaler-sync-period`).
const PERIOD: TickDuration = TickDuration::from_secs(15);
/// An answer that has not come by then never will: the driver waits for less.
const LOST: TickDuration = TickDuration::from_secs(60);

/// The namespaces in which something is scaled.
#[derive(Debug, Default)]
pub(crate) struct ReadingSchedule(BTreeMap<String, ScaledNamespace>);

#[derive(Debug)]
struct ScaledNamespace {
    autoscalers: usize,
    reading: ReadingState,
}

/// How the next reading stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadingState {
    /// It is due then.
    Due(Tick),
    /// It began then, and its answer is awaited.
    UnderWay(Tick),
}

impl ReadingSchedule {
    /// An object came, changed or went. The answer is the namespace that has no autoscaler any
    /// more.
    pub(crate) fn follow(&mut self, change: &ObjectChange, now: Tick) -> Option<String> {
        let is_autoscaler = |side: &Option<ViewObject>| {
            matches!(side, Some(ViewObject::HorizontalPodAutoscaler(_)))
        };
        let namespace = &change.id.name.namespace;
        match (is_autoscaler(&change.before), is_autoscaler(&change.after)) {
            (false, true) => {
                let new = || ScaledNamespace { autoscalers: 0, reading: ReadingState::Due(now) };
                let scaled = self.0.entry(namespace.clone()).or_insert_with(new);
                scaled.autoscalers += 1;
                // it may want to know what was not asked before
                if let ReadingState::Due(_) = scaled.reading {
                    scaled.reading = ReadingState::Due(now);
                }
                None
            }
            (true, false) => {
                let scaled = self.0.get_mut(namespace)?;
                scaled.autoscalers -= 1;
                let is_last = scaled.autoscalers == 0;
                is_last.then(|| self.0.remove_entry(namespace).map(|(namespace, _)| namespace))?
            }
            (true, true) | (false, false) => None,
        }
    }

    /// The namespaces with a reading due; each is under way from now on.
    pub(crate) fn begin_due(&mut self, now: Tick) -> Vec<String> {
        let mut due = Vec::new();
        for (namespace, scaled) in &mut self.0 {
            if scaled.due() <= now {
                scaled.reading = ReadingState::UnderWay(now);
                due.push(namespace.clone());
            }
        }
        due
    }

    /// A reading is there. False when no autoscaler waits for it any more.
    pub(crate) fn answered(&mut self, namespace: &str) -> bool {
        let Some(scaled) = self.0.get_mut(namespace) else { return false };
        if let ReadingState::UnderWay(began) = scaled.reading {
            scaled.reading = ReadingState::Due(began + PERIOD);
        }
        true
    }

    /// When the next reading is due.
    pub(crate) fn next_due(&self) -> Option<Tick> {
        self.0.values().map(ScaledNamespace::due).min()
    }
}

impl ScaledNamespace {
    /// When it is read again.
    fn due(&self) -> Tick {
        match self.reading {
            ReadingState::Due(at) => at,
            ReadingState::UnderWay(began) => began + LOST,
        }
    }
}

#[cfg(test)]
mod tests {
    use rekindle_controllers::ClusterView;
    use serde_json::json;

    use super::*;
    use crate::wire::object_from_json;
    use rekindle_controllers::ResourceKind;

    fn autoscaler(name: &str) -> ViewObject {
        let object = json!({"metadata": {"name": name, "namespace": "shop", "uid": name},
            "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "web"}}});
        let kind = ResourceKind::HorizontalPodAutoscaler;
        object_from_json(kind, object.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_namespace_is_read_every_15_s_from_its_first_autoscaler_to_its_last() {
        let at = |secs: u64| Tick::from_secs(1_000 + secs);
        let (mut view, mut schedule) = (ClusterView::new(), ReadingSchedule::default());
        assert_eq!((schedule.begin_due(at(0)), schedule.next_due()), (Vec::new(), None));
        for name in ["a", "b"] {
            let change = view.apply(autoscaler(name)).unwrap();
            assert_eq!(schedule.follow(&change, at(0)), None);
        }
        assert_eq!(schedule.next_due(), Some(at(0)));
        assert_eq!(schedule.begin_due(at(1)), ["shop"]);
        assert_eq!((schedule.begin_due(at(30)), schedule.next_due()), (Vec::new(), Some(at(61))));
        assert!(schedule.answered("shop"));
        assert_eq!(schedule.next_due(), Some(at(16)));
        let change = view.apply(autoscaler("c")).unwrap();
        schedule.follow(&change, at(10));
        assert_eq!(schedule.begin_due(at(10)), ["shop"], "a new one does not wait");
        assert!(schedule.answered("shop"));
        let change = view.delete(&autoscaler("c").id(), "c").unwrap();
        schedule.follow(&change, at(16));
        assert_eq!(schedule.begin_due(at(16)), [""; 0]);
        assert_eq!(schedule.begin_due(at(25)), ["shop"]);
        assert_eq!(schedule.begin_due(at(85)), ["shop"], "the answer is lost");
        let gone = ["a", "b"].map(|name| {
            let change = view.delete(&autoscaler(name).id(), name).unwrap();
            schedule.follow(&change, at(90))
        });
        assert_eq!(gone, [None, Some("shop".to_owned())]);
        assert_eq!((schedule.next_due(), schedule.answered("shop")), (None, false));
    }
}
