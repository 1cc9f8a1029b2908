//! Firewalls of the machine that drop what pods send. They are looked for when the writer begins,
//! and again when another process has changed rules of nftables: Docker may start after the engine.

use std::time::Duration;

use rekindle_net::rules::{
    DroppingFirewall, RuleTableConfig, dropping_firewalls, on_blocking_thread,
};
use rekindle_types::reasons::event;
use rekindle_types::{EventSeverity, IpStack, causes};
use tokio::time::Instant;

use crate::pods::{EventRecorder, node_reference};

/// A firewall that starts changes its rules many times: they are looked at when it has done so for
/// this time.
const SETTLES_IN: Duration = Duration::from_secs(1);
/// The longest wait, however many changes follow each other.
const LATEST_IN: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug)]
pub(super) struct FirewallWatch {
    bridge: String,
    stack: IpStack,
    /// The node that events are about.
    node: String,
    /// What was found last.
    found: Vec<DroppingFirewall>,
    changes: Option<UnseenChanges>,
}

/// Changes of rules since the last look.
#[derive(Clone, Copy, Debug)]
struct UnseenChanges {
    first: Instant,
    last: Instant,
}

impl FirewallWatch {
    pub(super) fn new(config: &RuleTableConfig, node: &str) -> Self {
        let (bridge, stack) = (config.bridge.clone(), config.stack());
        Self { bridge, stack, node: node.to_owned(), found: Vec::new(), changes: None }
    }

    /// Another process has changed rules.
    pub(super) fn rules_changed(&mut self) {
        let now = Instant::now();
        let first = self.changes.map_or(now, |changes| changes.first);
        self.changes = Some(UnseenChanges { first, last: now });
    }

    /// When to look again, if rules have changed.
    pub(super) fn look_at(&self) -> Option<Instant> {
        let changes = self.changes?;
        Some((changes.last + SETTLES_IN).min(changes.first + LATEST_IN))
    }

    /// Looks, and reports what is new.
    pub(super) async fn look(&mut self, recorder: &EventRecorder) {
        self.changes = None;
        let (bridge, stack) = (self.bridge.clone(), self.stack);
        match on_blocking_thread(move || dropping_firewalls(&bridge, stack)).await {
            Ok(found) => self.report(found, recorder),
            Err(error) => tracing::warn!(error = causes(&error), "failed to look at the firewall"),
        }
    }

    fn report(&mut self, found: Vec<DroppingFirewall>, recorder: &EventRecorder) {
        for firewall in found.iter().filter(|firewall| !firewall.is_among(&self.found)) {
            let DroppingFirewall { table, .. } = firewall;
            let (effect, remedy) = (firewall.effect(), firewall.remedy());
            tracing::warn!(
                %table,
                remedy,
                "found {firewall}, which drops packets of pods: {effect}; run the remedy"
            );
            let message = format!(
                "{firewall} (table {table}) drops packets of pods: {effect}. What helps: {remedy}"
            );
            let about = node_reference(&self.node);
            let severity = EventSeverity::Warning;
            recorder.record(about, severity, event::FIREWALL_DROPS_PACKETS, message);
        }
        if found.is_empty() && !self.found.is_empty() {
            tracing::info!("no firewall drops packets of pods any more");
        }
        self.found = found;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use k8s_openapi::api::core::v1::EventSource;
    use rekindle_net::rules::{FirewallKind, PodTraffic, TableFamily, TableName};
    use serde_json::Value;

    use super::*;
    use crate::testing::World;

    fn watch() -> FirewallWatch {
        FirewallWatch {
            bridge: "rktest0".to_owned(),
            stack: IpStack::Single,
            node: "node-a".to_owned(),
            found: Vec::new(),
            changes: None,
        }
    }

    fn docker(drops: &[PodTraffic]) -> DroppingFirewall {
        DroppingFirewall {
            table: TableName { family: TableFamily::Ip, name: "filter".to_owned() },
            kind: FirewallKind::Docker,
            drops: BTreeSet::from_iter(drops.iter().copied()),
            bridge: "rktest0".to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_of_changes_is_looked_at_when_it_is_over_and_one_without_end_too() {
        let (mut watch, start) = (watch(), Instant::now());
        assert_eq!(watch.look_at(), None);
        let mut looks = Vec::new();
        for _ in 0..13 {
            watch.rules_changed();
            looks.push((watch.look_at().unwrap() - start).as_millis());
            tokio::time::advance(Duration::from_millis(800)).await;
        }
        assert_eq!(looks[..3], [1000, 1800, 2600]);
        assert_eq!(looks[10..], [9000, 9800, 10_000]);
        watch.changes = None;
        watch.rules_changed();
        assert_eq!(watch.look_at(), Some(Instant::now() + SETTLES_IN));
    }

    #[tokio::test(start_paused = true)]
    async fn a_firewall_is_reported_when_it_comes_and_when_it_comes_back() {
        let world = World::new();
        let source = EventSource { component: Some("kube-proxy".to_owned()), host: None };
        let recorder = EventRecorder::start_for(world.api.client(), source, world.clock);
        let mut watch = watch();
        let forwarded = [PodTraffic::FromPods, PodTraffic::ToPods];
        let all = [&forwarded[..], &[PodTraffic::ForNode]].concat();
        let times = |events: &[Value]| {
            let counts = events.iter().map(|event| event["count"].as_u64().unwrap_or(1));
            counts.sum::<u64>()
        };
        for (found, reports) in [
            (vec![docker(&forwarded)], 1),
            (vec![docker(&forwarded)], 1),
            // half of the remedy was run
            (vec![docker(&forwarded[..1])], 1),
            (vec![], 1),
            (vec![docker(&forwarded)], 2),
            (vec![docker(&all)], 3),
        ] {
            watch.report(found, &recorder);
            let written = |api: &crate::testing::FakeApi| times(&api.list("events")) == reports;
            world.api.until("the reports are written", written).await;
        }
        let events = world.api.list("events");
        let first = events.iter().find(|event| event["count"] == 2).unwrap();
        assert_eq!(first["reason"], "FirewallDropsPackets");
        assert_eq!(first["type"], "Warning");
        assert_eq!(first["involvedObject"]["kind"], "Node");
        assert_eq!(first["involvedObject"]["name"], "node-a");
        assert_eq!(
            first["message"],
            "Docker's firewall (table ip filter) drops packets of pods: pods reach neither each other through Services nor the outside. \
             What helps: iptables -I DOCKER-USER -i rktest0 -j ACCEPT && iptables -I DOCKER-USER -o rktest0 -j ACCEPT"
        );
    }
}
