//! What came to campaigns when there were seeds already that had shown something. It is drawn from
//! an entropy of its own: seeds that have nothing of this are as they were.

use rekindle_controllers::ResourceKind;
use rekindle_controllers::plan::DependentPolicy;
use rekindle_types::TickDuration;
use rekindle_types::v1alpha1::Rung;
use serde_json::{Value, json};

use super::nodes::pod_spec;
use super::users::id_of;
use super::{CampaignGenerator, Seeded};
use crate::campaign::Campaign;
use crate::faults::{NodeOperation, NodeReturn, WorldEvent};
use crate::script::WorldChange;

/// The longest time without images.
const NO_IMAGES_MAX_SECONDS: u64 = 300;

/// What pods are of that ladders are changed for.
const APPS: [&str; 3] = ["web-0", "db", "agent"];

impl CampaignGenerator {
    pub(super) const fn of_more(seed: u64) -> Self {
        Self { entropy: Seeded::new(seed ^ 0x6d6f_7265) }
    }

    pub(super) fn more(&mut self, campaign: &mut Campaign) {
        if self.once_in(6) {
            let stands_still = WorldEvent::ClockStep(self.span(180));
            campaign.deeds.push((self.moment(), stands_still));
        }
        if self.once_in(3) {
            let rung = [Rung::Container, Rung::Containers, Rung::Pod, Rung::Reschedule];
            let restart = WorldEvent::RestartPod(self.entropy.next(), rung[self.index(rung.len())]);
            self.asked(campaign, restart);
        }
        self.nodes_again(campaign);
        self.deletions(campaign);
        if self.once_in(4) {
            self.collection(campaign);
        }
        if self.once_in(4) {
            self.images(campaign);
        }
        self.ladders(campaign);
        if self.once_in(4) {
            self.group_ladders(campaign);
        }
    }

    /// Some ladders decide for all pods of a workload as one, from the start or from a moment on.
    fn group_ladders(&mut self, campaign: &mut Campaign) {
        for place in 0..campaign.objects.len() {
            if campaign.objects[place]["kind"] != "RestartLadder" || self.once_in(3) {
                continue;
            }
            let mut ladder = campaign.objects[place].clone();
            let spec = &mut ladder["spec"];
            spec["scope"] = json!("Group");
            // what no such ladder may ask for
            spec["onExhausted"] = json!("Hold");
            if let Some(rungs) = spec["rungs"].as_array_mut() {
                rungs.retain(|rung| rung["rung"] != json!(Rung::Rollback));
            }
            if self.once_in(3) {
                self.asked(campaign, WorldEvent::User(WorldChange::Apply(ladder)));
            } else {
                campaign.objects[place] = ladder;
            }
        }
    }

    /// While rungs are climbed, ladders get other rungs and budgets, take pods over from one
    /// another, and ledgers are written into.
    fn ladders(&mut self, campaign: &mut Campaign) {
        if self.once_in(3) {
            let app = APPS[self.index(APPS.len())];
            let ladder = WorldEvent::User(WorldChange::Apply(self.ladder(app)));
            self.asked(campaign, ladder);
        }
        if self.once_in(4) {
            self.swap(campaign);
        }
        if self.once_in(4) {
            for _ in 0..1 + self.index(3) {
                let status = self.forged_status();
                let edit = WorldEvent::EditLedger(self.entropy.next(), status);
                self.asked(campaign, edit);
            }
        }
    }

    /// Each ladder selects what another one did, and perhaps what it did itself again later.
    fn swap(&mut self, campaign: &mut Campaign) {
        let ladders = campaign.objects.iter().filter(|ladder| ladder["kind"] == "RestartLadder");
        let selectors = ladders.filter_map(|l| Some((id_of(l)?, l["spec"]["selector"].clone())));
        let (ids, selectors): (Vec<_>, Vec<_>) = selectors.unzip();
        let mut swapped = selectors.clone();
        match swapped.as_mut_slice() {
            [] => return,
            [only] => {
                *only = json!({"matchLabels": {"app": APPS[self.index(APPS.len())]}});
            }
            several => several.rotate_right(1),
        }
        let (mut at, back) = (self.moment(), self.once_in(2).then_some(selectors));
        for selectors in [Some(swapped), back].into_iter().flatten() {
            for (id, selector) in ids.iter().zip(selectors) {
                let patch = json!({"spec": {"selector": selector}});
                campaign.deeds.push((at, WorldEvent::User(WorldChange::Patch(id.clone(), patch))));
            }
            at = at + self.span(300);
        }
    }

    /// What somebody writes over a ledger's status: that nothing was ever tried, or everything;
    /// that a rung is held, or asked for; that another pod was looked at.
    fn forged_status(&mut self) -> Value {
        let rung = Rung::ALL[self.index(Rung::ALL.len())];
        match self.index(6) {
            0 => Value::Null,
            1 => json!({"attempts": null, "decisions": null, "inVain": null}),
            2 => json!({"phase": "Exhausted", "rung": rung, "message": "by hand"}),
            3 => json!({"phase": "Holding", "heldRung": rung, "heldBy": "LadderBudget"}),
            4 => json!({"phase": "Climbing", "rung": rung, "pendingRestart": "never-made"}),
            _ => json!({"podUID": "another", "observed": null, "stableSince": null}),
        }
    }

    /// A user asks for it, and an agent may die in the middle of what that brings about.
    fn asked(&mut self, campaign: &mut Campaign, deed: WorldEvent) {
        let at = self.moment();
        campaign.deeds.push((at, deed));
        if self.once_in(2) {
            let dies = WorldEvent::CrashAgentBefore(self.entropy.next(), self.entropy.below(60));
            campaign.deeds.push((at, dies));
        }
    }

    fn nodes_again(&mut self, campaign: &mut Campaign) {
        if self.once_in(6) {
            let cordon = NodeOperation::Cordon(self.span(600));
            campaign.deeds.push((self.moment(), WorldEvent::ToNode(self.entropy.next(), cordon)));
        }
        if self.once_in(5) {
            let comeback = match self.once_in(2) {
                true => NodeReturn::Never,
                false => NodeReturn::After(self.span(200)),
            };
            let delete = WorldEvent::ToNode(self.entropy.next(), NodeOperation::Delete(comeback));
            campaign.deeds.push((self.moment(), delete));
        }
    }

    /// Workloads of kinds of which a campaign has few.
    fn deletions(&mut self, campaign: &mut Campaign) {
        for kind in [
            ResourceKind::StatefulSet,
            ResourceKind::DaemonSet,
            ResourceKind::Job,
            ResourceKind::CronJob,
        ] {
            let ids = campaign.objects.iter().filter_map(id_of);
            let Some(id) = ids.into_iter().find(|id| id.kind == kind) else { continue };
            if self.once_in(4) {
                let propagation = self.propagation();
                self.asked(campaign, WorldEvent::Delete(id, propagation));
            }
        }
    }

    /// All objects of a kind, or those of one application.
    fn collection(&mut self, campaign: &mut Campaign) {
        let kinds = [
            ResourceKind::Pod,
            ResourceKind::Pod,
            ResourceKind::ReplicaSet,
            ResourceKind::ControllerRevision,
            ResourceKind::Job,
            ResourceKind::PersistentVolumeClaim,
            ResourceKind::PodRestart,
            ResourceKind::EndpointSlice,
        ];
        let kind = kinds[self.index(kinds.len())];
        let app = ["web-0", "db"][self.index(2)].to_owned();
        let app = Some(app).filter(|_| kind == ResourceKind::Pod && self.once_in(2));
        let propagation = self.propagation();
        self.asked(campaign, WorldEvent::DeleteMany(kind, app, propagation));
    }

    fn propagation(&mut self) -> DependentPolicy {
        [
            DependentPolicy::Default,
            DependentPolicy::Background,
            DependentPolicy::Foreground,
            DependentPolicy::Orphan,
        ][self.index(4)]
    }

    /// For a while no image can be had, and pods are made meanwhile. While their containers wait,
    /// sandboxes die, and pods are asked to start again.
    fn images(&mut self, campaign: &mut Campaign) {
        if self.once_in(2) {
            // what has run before is looked for again as well
            let object = self.index(campaign.objects.len());
            let containers = pod_spec(&mut campaign.objects[object])
                .and_then(|spec| spec["containers"].as_array_mut());
            for container in containers.into_iter().flatten() {
                container["imagePullPolicy"] = json!("Always");
            }
        }
        let (at, seconds) = (self.moment(), 60 + self.entropy.below(NO_IMAGES_MAX_SECONDS - 60));
        let lost = WorldEvent::LoseRegistry(TickDuration::from_secs(seconds));
        campaign.deeds.push((at, lost));
        let soon = at + TickDuration::from_secs(1);
        let made = match self.index(3) {
            0 => WorldEvent::DeletePod(self.entropy.next()),
            1 => WorldEvent::EvictPod(self.entropy.next()),
            _ => WorldEvent::DeleteMany(ResourceKind::Pod, None, DependentPolicy::Background),
        };
        campaign.deeds.push((soon, made));
        for _ in 0..1 + self.index(3) {
            let (then, pick) = (soon + self.span(seconds), self.entropy.next());
            let deed = match self.index(4) {
                0 => WorldEvent::RestartPod(pick, Rung::Pod),
                _ => WorldEvent::EndSandbox(pick),
            };
            campaign.deeds.push((then, deed));
        }
    }
}
