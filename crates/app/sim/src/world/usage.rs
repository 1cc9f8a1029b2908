//! What the pods of the world use, as `metrics.k8s.io` would say it: the load of the scenario,
//! shared by the pods that are ready.

use rekindle_controllers::readings::{
    MeasuredPod, NamespaceReading, ReadingRequest, UsageReading, UsageReport,
};
use rekindle_types::pods::AnyPod;
use rekindle_types::{TickDuration, pods};

use super::{BEGIN, World, name_of};
use crate::agent::SimulatedPod;
use crate::load::{PodLoad, idle};
use crate::server::MachinePower;

/// Over which CPU is measured: the controllers read as often.
const WINDOW: TickDuration = TickDuration::from_secs(15);

impl World {
    /// From now on pods use so much.
    pub fn set_load(&mut self, load: Vec<PodLoad>) {
        self.load = load;
    }

    /// What autoscalers decide on. A world has no adapters and no custom resources.
    pub(super) fn reading_of(&self, request: &ReadingRequest) -> NamespaceReading {
        let none = || "the server could not find the requested resource".to_owned();
        let (metrics, scales) = (request.metrics.iter(), request.scales.iter());
        NamespaceReading {
            usage: self.usage_of(&request.namespace),
            metrics: metrics.map(|query| (query.clone(), Err(none()))).collect(),
            scales: scales.map(|id| (id.clone(), Err(none()))).collect(),
        }
    }

    /// Of the pods of which something runs, on nodes that can be asked.
    fn usage_of(&self, namespace: &str) -> UsageReading {
        if self.server.power() != MachinePower::On {
            return Err("the API does not answer".to_owned());
        }
        let asked = |pod: &&SimulatedPod| {
            let of = pod.pod.metadata.namespace.as_deref().unwrap_or_default();
            of == namespace && !self.cut_off.contains_key(&pod.node)
        };
        let time = self.now.since(BEGIN);
        let running = self.pods.values().map(AsRef::as_ref).filter(asked);
        let measured =
            running.filter_map(|pod| Some((name_of(&*pod.pod).name, self.measured(pod, time)?)));
        Ok(UsageReport { pods: measured.collect() })
    }

    fn measured(&self, pod: &SimulatedPod, time: TickDuration) -> Option<MeasuredPod> {
        let spec = pod.pod.spec.as_ref()?;
        let first = spec.containers.first()?.name.as_str();
        let load = self.load.iter().find(|load| is_of(load, pod)).filter(|_| is_ready(self, pod));
        let share = load.map(|load| {
            let sharing =
                self.pods.values().filter(|other| is_of(load, other) && is_ready(self, other));
            (load.container(first), load.share(time, sharing.count()))
        });
        let used = |name: &str| match &share {
            Some((loaded, amounts)) if *loaded == name => amounts.clone(),
            Some(_) | None => idle(),
        };
        let containers: std::collections::BTreeMap<_, _> =
            pod.running().map(|key| (key.name.0.clone(), used(&key.name.0))).collect();
        let (taken_at, window) = (self.desk_now(), WINDOW);
        (!containers.is_empty()).then_some(MeasuredPod { taken_at, window, containers })
    }
}

fn is_of(load: &PodLoad, pod: &SimulatedPod) -> bool {
    let meta = pod.pod.metadata();
    let labels = meta.labels.clone().unwrap_or_default();
    load.is_of(meta.namespace.as_deref().unwrap_or_default(), &labels)
}

/// As the API has it: load comes through its Service.
fn is_ready(world: &World, pod: &SimulatedPod) -> bool {
    world.server.pod(&name_of(&*pod.pod)).is_some_and(|shown| pods::is_ready(shown.as_ref()))
}
