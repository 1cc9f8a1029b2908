//! What becomes of nodes: they are silent for so long that their pods have to go, and users cordon,
//! drain and delete them, and vouch that they are down. Which pods bear that for how long.

use rekindle_reconcile::NodeLifecycleSettings;
use rekindle_types::{TickDuration, taints};
use serde_json::{Value, json};

use super::CampaignGenerator;
use crate::campaign::{Campaign, FAULTS_END};
use crate::faults::{NodeOperation, NodeReturn, WorldEvent};

/// The shortest of the losses that are drawn here. What has no tolerations of its own has to go
/// after 350 s.
const LOSS_MIN_SECONDS: u64 = 60;
/// The longest.
const LOSS_MAX_SECONDS: u64 = 12 * 60;

impl CampaignGenerator {
    /// In every second campaign; what pods tolerate is drawn in every one that has this.
    pub(super) fn nodes(&mut self, campaign: &mut Campaign) {
        if self.once_in(2) {
            return;
        }
        if self.once_in(3) {
            campaign.patience = NodeLifecycleSettings {
                grace: TickDuration::from_secs(4 + self.entropy.below(16)),
                eviction_interval: TickDuration::from_secs(1),
                ..NodeLifecycleSettings::default()
            };
        }
        for object in &mut campaign.objects {
            if let Some(spec) = pod_spec(object)
                && self.once_in(2)
            {
                spec["tolerations"] = json!([self.toleration()]);
            }
        }
        for _ in 0..1 + self.index(2) {
            self.loss(campaign);
        }
        for _ in 0..self.index(3) {
            let (at, pick) = (self.moment(), self.entropy.next());
            let lasts = self.span(LOSS_MAX_SECONDS);
            let deed = match self.index(5) {
                0 => NodeOperation::Cordon(lasts),
                1 | 2 => NodeOperation::Drain(lasts),
                3 => NodeOperation::OutOfService(lasts),
                _ => NodeOperation::Delete(self.comeback()),
            };
            campaign.deeds.push((at, WorldEvent::ToNode(pick, deed)));
        }
    }

    pub(super) fn span(&mut self, seconds: u64) -> TickDuration {
        TickDuration::from_secs(1 + self.entropy.below(seconds))
    }

    /// A node is lost for long, early enough that its pods have to go while things go wrong; and
    /// what a user makes of it.
    fn loss(&mut self, campaign: &mut Campaign) {
        let pick = self.entropy.next();
        let longest = FAULTS_END.as_secs() - LOSS_MAX_SECONDS;
        let at = TickDuration::from_secs(30 + self.entropy.below(longest));
        let seconds = LOSS_MIN_SECONDS + self.entropy.below(LOSS_MAX_SECONDS - LOSS_MIN_SECONDS);
        campaign.deeds.push((at, WorldEvent::LoseNode(pick, TickDuration::from_secs(seconds))));
        let meanwhile = at + self.span(seconds);
        let deed = match self.index(8) {
            // also for longer than the node is lost
            0 | 1 => NodeOperation::OutOfService(self.span(seconds)),
            2 => NodeOperation::Delete(self.comeback()),
            3 => NodeOperation::Drain(self.span(seconds)),
            _ => return,
        };
        campaign.deeds.push((meanwhile, WorldEvent::ToNode(pick, deed)));
    }

    fn comeback(&mut self) -> NodeReturn {
        match self.index(3) {
            0 => NodeReturn::Never,
            // as fast as an agent notices it, and so late that its pods are given up
            1 => NodeReturn::After(self.span(20)),
            _ => NodeReturn::After(self.span(200)),
        }
    }

    /// Of taints that end pods: for a while, or for good; also whatever there is.
    fn toleration(&mut self) -> Value {
        let mut toleration = json!({"operator": "Exists"});
        let which = self.index(5);
        if which < 3 {
            toleration["key"] = json!(taints::UNREACHABLE);
        }
        if which < 4 {
            toleration["effect"] = json!(taints::NO_EXECUTE);
        }
        if which < 2 || which == 3 {
            toleration["tolerationSeconds"] = json!(self.index(90));
        }
        toleration
    }
}

/// What the pods of an object are to be; none when it has none.
pub(super) fn pod_spec(object: &mut Value) -> Option<&mut Value> {
    let path = match object["kind"].as_str()? {
        "Deployment" | "StatefulSet" | "DaemonSet" | "Job" => "/spec/template/spec",
        "CronJob" => "/spec/jobTemplate/spec/template/spec",
        "Pod" => "/spec",
        _ => return None,
    };
    object.pointer_mut(path)
}
