//! Makes campaigns from seeds: pods of every shape, users who change them, and faults.

mod invalid;
mod nodes;
mod special_workloads;
mod templates;
mod users;
mod workloads;

use std::collections::BTreeSet;

use rekindle_reconcile::NodeLifecycleSettings;
use rekindle_types::{ExitStatus, TickDuration};
use serde_json::Value;

use crate::behaviour::{Behaviour, BehaviourRemedy, ExitRule};
use crate::campaign::{Campaign, FAULTS_END};
use crate::entropy::Seeded;
use crate::faults::{FaultRates, PowerLossSync, WatchRecovery, WorldEvent};
use templates::{RESTART_ALL_CODE, RESTART_CODE};

/// What containers of this image do is wrong, as long as anything is.
const BAD_IMAGE: &str = "app:bad";

impl Campaign {
    /// The campaign of a seed. Every fourth has no faults but agents that die: there the number of
    /// starts can be compared.
    pub fn of_seed(seed: u64) -> Self {
        let mut draw = CampaignGenerator { entropy: Seeded::new(seed) };
        let mut campaign = Self {
            seed,
            nodes: 1 + draw.index(4),
            patience: NodeLifecycleSettings::default(),
            objects: Vec::new(),
            behaviours: Vec::new(),
            deeds: Vec::new(),
            rates: FaultRates::default(),
            crashes: BTreeSet::new(),
            bug: None,
        };
        draw.workload(&mut campaign);
        if campaign.has_crashes_only() {
            draw.crashes(&mut campaign);
        } else {
            draw.behaviours(&mut campaign);
            draw.users(&mut campaign);
            draw.faults(&mut campaign);
        }
        for _ in 0..draw.index(6) {
            campaign.crashes.insert(draw.entropy.below(600));
        }
        if !campaign.has_crashes_only() {
            draw.nodes(&mut campaign);
            CampaignGenerator::of_more(seed).more(&mut campaign);
        }
        campaign.behaviours.extend(permanent());
        campaign
    }

    /// Whether nothing goes wrong but that agents die.
    pub fn has_crashes_only(&self) -> bool {
        // one that was made by hand has what it was given, whatever its seed
        let is_sound = self.deeds.is_empty() && self.rates == FaultRates::default();
        self.seed.is_multiple_of(4) && is_sound
    }
}

/// What containers of these names always do.
fn permanent() -> [Behaviour; 3] {
    let ends = |container: &str, seconds| Behaviour {
        container: Some(container.to_owned()),
        exits: Some(ExitRule { code: 0, after: TickDuration::from_secs(seconds), oom: false }),
        ..Behaviour::default()
    };
    [ends("setup", 1), ends("work", 5), ends("chore", 9)]
}

/// Draws what a campaign is made of.
struct CampaignGenerator {
    entropy: Seeded,
}

impl CampaignGenerator {
    fn index(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound.max(1)).unwrap_or(1);
        usize::try_from(self.entropy.below(bound)).unwrap_or(0)
    }

    /// True once in so many times.
    fn once_in(&mut self, times: u64) -> bool {
        self.entropy.below(times) == 0
    }

    fn moment(&mut self) -> TickDuration {
        TickDuration::from_millis(self.entropy.below(FAULTS_END.as_micros() / 1_000))
    }

    fn behaviours(&mut self, campaign: &mut Campaign) {
        for _ in 0..self.index(4) {
            let object = self.index(campaign.objects.len());
            let Some((app, container)) = self.container_of(&campaign.objects[object]) else {
                continue;
            };
            let exits = self.exits();
            let hangs = self.once_in(4) && may_hang(&container);
            let container = container["name"].as_str().unwrap_or_default().to_owned();
            campaign.behaviours.push(Behaviour {
                match_labels: [("app".to_owned(), app)].into(),
                container: Some(container),
                from: self.moment(),
                until: Some(FAULTS_END),
                mended_by: [
                    BehaviourRemedy::Nothing,
                    BehaviourRemedy::Container,
                    BehaviourRemedy::Pod,
                ][self.index(3)],
                exits: Some(exits).filter(|_| !hangs),
                hangs,
                ..Behaviour::default()
            });
        }
        let exits = self.exits();
        campaign.behaviours.push(Behaviour {
            image: Some(BAD_IMAGE.to_owned()),
            until: Some(FAULTS_END),
            exits: Some(exits),
            ..Behaviour::default()
        });
    }

    /// Containers that end again and again where nothing else goes wrong: when they do follows from
    /// their starts alone, so that what is done can be compared. One that hangs is ended when it
    /// was probed so often, which depends on when its agent began to ask.
    fn crashes(&mut self, campaign: &mut Campaign) {
        for _ in 0..self.index(3) {
            let object = self.index(campaign.objects.len());
            let Some((app, container)) = self.container_of(&campaign.objects[object]) else {
                continue;
            };
            let container = container["name"].as_str().unwrap_or_default().to_owned();
            campaign.behaviours.push(Behaviour {
                match_labels: [("app".to_owned(), app)].into(),
                container: Some(container),
                until: Some(FAULTS_END),
                mended_by: [
                    BehaviourRemedy::Nothing,
                    BehaviourRemedy::Container,
                    BehaviourRemedy::Pod,
                ][self.index(3)],
                exits: Some(self.exits()),
                ..Behaviour::default()
            });
        }
    }

    /// How a container ends that goes wrong.
    fn exits(&mut self) -> ExitRule {
        let code = match self.index(4) {
            0 => RESTART_CODE,
            1 => RESTART_ALL_CODE,
            _ => 1 + u8::try_from(self.index(200)).unwrap_or(0),
        };
        let after = TickDuration::from_millis(self.entropy.below(60_000));
        ExitRule { code, after, oom: self.once_in(4) }
    }

    /// The label of an object's pods, and a container of theirs; none when it has no pods.
    fn container_of(&mut self, object: &Value) -> Option<(String, Value)> {
        let spec = &object["spec"];
        let templates = [&spec["template"], &spec["jobTemplate"]["spec"]["template"], object];
        let pod = templates.into_iter().find(|pod| pod["spec"]["containers"].is_array())?;
        let of = |list: &str| pod["spec"][list].as_array().cloned().unwrap_or_default();
        let containers = [of("containers"), of("initContainers")].concat();
        let container = containers[self.index(containers.len())].clone();
        Some((pod["metadata"]["labels"]["app"].as_str()?.to_owned(), container))
    }

    fn faults(&mut self, campaign: &mut Campaign) {
        let mut rate = |bound| match self.once_in(2) {
            true => self.entropy.below(bound),
            false => 0,
        };
        campaign.rates = FaultRates {
            runtime_fails: rate(60),
            runtime_unsaid: rate(60),
            runtime_late: rate(60),
            runtime_silent: rate(15),
            write_lost: rate(60),
            write_unsaid: rate(60),
            write_conflict: rate(60),
        };
        for _ in 0..self.index(10) {
            let (at, pick) = (self.moment(), self.entropy.next());
            let lasts = TickDuration::from_secs(1 + self.entropy.below(180));
            let deed = match self.index(15) {
                0 => WorldEvent::CrashAgent(pick),
                13 => WorldEvent::Reboot(pick),
                14 => WorldEvent::Pressure(pick),
                12 => WorldEvent::CrashAgentBefore(pick, self.entropy.below(30)),
                1 => WorldEvent::CrashControllers,
                2 => WorldEvent::PowerLoss(PowerLossSync::Before),
                3 => WorldEvent::PowerLoss(PowerLossSync::After),
                4 => WorldEvent::DeafControllers(lasts, WatchRecovery::Batch),
                5 => WorldEvent::DeafControllers(lasts, WatchRecovery::Relist),
                6 => WorldEvent::DeafNode(pick, lasts),
                7 => WorldEvent::LoseNode(pick, lasts),
                8 => WorldEvent::EndContainer(pick, ExitStatus::OomKilled),
                9 => WorldEvent::FullDisk(lasts),
                10 => WorldEvent::WallClock(
                    i64::try_from(self.entropy.below(1_200)).unwrap_or(0) - 600,
                ),
                _ => match self.once_in(2) {
                    true => WorldEvent::EndSandbox(pick),
                    false => WorldEvent::ClockStep(lasts),
                },
            };
            campaign.deeds.push((at, deed));
        }
    }
}

/// Whether it may hang, and does so for good then: somebody notices it, or nobody waits for it to
/// be ready. Of one whose hook postStart hangs with it nobody ever asks anything.
fn may_hang(container: &Value) -> bool {
    matches!(container["name"].as_str(), Some("app" | "aux" | "sidecar"))
        && container["lifecycle"]["postStart"].is_null()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::faults::{NodeOperation, NodeReturn};

    /// What is done, and of which sort.
    fn sort_of(deed: &WorldEvent) -> String {
        let word = |said: String| said.split('(').next().unwrap_or_default().to_owned();
        match deed {
            WorldEvent::PowerLoss(_) | WorldEvent::DeafControllers(..) => format!("{deed:?}"),
            WorldEvent::RestartPod(_, rung) => format!("RestartPod {rung}"),
            WorldEvent::ToNode(_, NodeOperation::Delete(NodeReturn::After(_))) => {
                "ToNode Delete After".to_owned()
            }
            WorldEvent::ToNode(_, NodeOperation::Delete(NodeReturn::Never)) => {
                "ToNode Delete Never".to_owned()
            }
            WorldEvent::ToNode(_, deed) => word(format!("ToNode {deed:?}")),
            WorldEvent::User(change) => word(format!("User {change:?}")),
            other => word(format!("{other:?}")),
        }
        .replace(|letter: char| letter.is_ascii_digit(), "")
    }

    fn times<T: Ord>(of_seed: impl Fn(&Campaign) -> Vec<T>) -> BTreeMap<T, usize> {
        let mut times = BTreeMap::new();
        for seed in 1..=300 {
            let sorts: BTreeSet<T> = of_seed(&Campaign::of_seed(seed)).into_iter().collect();
            sorts.into_iter().for_each(|sort| *times.entry(sort).or_default() += 1);
        }
        times
    }

    #[test]
    fn whatever_is_done_at_all_is_done_in_a_tenth_of_the_campaigns() {
        let deeds = times(|made| made.deeds.iter().map(|(_, deed)| sort_of(deed)).collect());
        // a new sort of deed is counted here, too
        assert_eq!(deeds.len(), 38, "{deeds:#?}");
        let rarely = deeds.iter().filter(|(_, times)| **times < 30);
        assert_eq!(rarely.collect::<Vec<_>>(), [], "{deeds:#?}");
        let rates = times(|made| {
            let FaultRates { runtime_fails, runtime_unsaid, runtime_late, runtime_silent, .. } =
                made.rates;
            let FaultRates { write_lost, write_unsaid, write_conflict, .. } = made.rates;
            let of_runtime = [runtime_fails, runtime_unsaid, runtime_late, runtime_silent];
            let of_writes = [write_lost, write_unsaid, write_conflict, 0];
            let all = of_runtime.into_iter().chain(of_writes).enumerate();
            all.filter(|(_, rate)| *rate > 0).map(|(which, _)| which).collect()
        });
        assert!(rates.len() == 7 && rates.values().all(|times| *times >= 30), "{rates:?}");
    }
}
