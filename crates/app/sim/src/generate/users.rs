//! What users do while things go wrong.

use rekindle_controllers::plan::DependentPolicy;
use rekindle_controllers::{NamespacedName, ObjectId, ResourceKind};
use rekindle_types::v1alpha1::Rung;
use serde_json::{Value, json};

use super::{BAD_IMAGE, CampaignGenerator};
use crate::campaign::Campaign;
use crate::faults::WorldEvent;
use crate::script::WorldChange;

impl CampaignGenerator {
    pub(super) fn users(&mut self, campaign: &mut Campaign) {
        for _ in 0..self.index(12) {
            let at = self.moment();
            let pick = self.entropy.next();
            let deed = match self.index(11) {
                0 => self.scale(campaign),
                1 | 2 => self.roll(campaign),
                3 => WorldEvent::DeletePod(pick),
                4 => WorldEvent::EvictPod(pick),
                5 | 6 => match Rung::ALL[self.index(Rung::ALL.len())] {
                    Rung::Container if pick.is_multiple_of(2) => WorldEvent::RestartContainer(pick),
                    rung => WorldEvent::RestartPod(pick, rung),
                },
                7 => self.delete(campaign),
                8 => WorldEvent::RestartContainer(pick),
                9 => WorldEvent::ForcePod(pick),
                _ => self.invalid(),
            };
            campaign.deeds.push((at, deed));
            if self.once_in(2) {
                // in the middle of what that brings about
                let (node, action) = (self.entropy.next(), self.entropy.below(60));
                campaign.deeds.push((at, WorldEvent::CrashAgentBefore(node, action)));
            }
        }
    }

    /// One of the objects of these kinds.
    fn one_of<'a>(
        &mut self,
        campaign: &'a Campaign,
        kinds: &[ResourceKind],
    ) -> (ObjectId, &'a Value) {
        let all = campaign.objects.iter().filter_map(|object| Some((id_of(object)?, object)));
        let all: Vec<_> = all.filter(|(id, _)| kinds.contains(&id.kind)).collect();
        let picked = self.index(all.len());
        all[picked].clone()
    }

    fn scale(&mut self, campaign: &Campaign) -> WorldEvent {
        let (id, _) = self.one_of(campaign, &[ResourceKind::Deployment, ResourceKind::StatefulSet]);
        WorldEvent::User(WorldChange::Patch(id, json!({"spec": {"replicas": self.index(6)}})))
    }

    /// Another template: another annotation, or another image, which may be a bad one.
    fn roll(&mut self, campaign: &Campaign) -> WorldEvent {
        let rolled = [ResourceKind::Deployment, ResourceKind::StatefulSet, ResourceKind::DaemonSet];
        let (id, object) = self.one_of(campaign, &rolled);
        let template = match self.index(3) {
            0 => {
                let mut containers = object["spec"]["template"]["spec"]["containers"].clone();
                containers[0]["image"] = json!(["app:2", BAD_IMAGE][self.index(2)]);
                json!({"spec": {"containers": containers}})
            }
            _ => json!({"metadata": {"annotations": {"version": format!("{}", self.index(5))}}}),
        };
        WorldEvent::User(WorldChange::Patch(id, json!({"spec": {"template": template}})))
    }

    /// Something is deleted, and what was of it goes first, later, or stays. Sometimes it is wanted
    /// again.
    fn delete(&mut self, campaign: &mut Campaign) -> WorldEvent {
        let deleted = [
            ResourceKind::Deployment,
            ResourceKind::StatefulSet,
            ResourceKind::DaemonSet,
            ResourceKind::Job,
            ResourceKind::CronJob,
            ResourceKind::PodDisruptionBudget,
            ResourceKind::RestartLadder,
            ResourceKind::Service,
        ];
        let (id, object) = self.one_of(campaign, &deleted);
        let object = object.clone();
        let propagation = [
            DependentPolicy::Default,
            DependentPolicy::Background,
            DependentPolicy::Foreground,
            DependentPolicy::Orphan,
        ][self.index(4)];
        if self.once_in(2) {
            let again = WorldEvent::User(WorldChange::Apply(object));
            campaign.deeds.push((self.moment(), again));
        }
        WorldEvent::Delete(id, propagation)
    }
}

/// What an object of a campaign is called.
pub(super) fn id_of(object: &Value) -> Option<ObjectId> {
    let kind =
        ResourceKind::of_reference(object["apiVersion"].as_str()?, object["kind"].as_str()?)?;
    let name = object["metadata"]["name"].as_str()?;
    Some(ObjectId::new(kind, NamespacedName::new("default", name)))
}
