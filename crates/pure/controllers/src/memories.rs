//! What controllers remember beside the objects. Each memory belongs to one controller and lies in
//! its folder: no other one reads it. It follows the changes of the view. So it is told of each
//! change once, whichever way the object came.

use rekindle_types::Tick;

use crate::cluster::ClusterIndex;
use crate::creation_brake::CreationLedger;
use crate::cron_job::ScheduleChanges;
use crate::disruption::PodDepartures;
use crate::endpoints::OrphanedEndpoints;
use crate::horizontal_autoscaler::history::ScalingHistories;
use crate::node_lifecycle::{NodeHeartbeats, Zones};
use crate::pod_gc::LostNodes;
use crate::resource_quota::QuotaActivity;
use crate::scheduler::SchedulingAttempts;
use crate::{NamespacedName, ResourceKind, ViewObject};

/// The memories of all controllers.
#[derive(Clone, Debug, Default)]
pub(crate) struct ControllerMemories {
    /// The scheduler's.
    pub(crate) attempts: SchedulingAttempts,
    /// The node lifecycle controller's.
    pub(crate) heartbeats: NodeHeartbeats,
    /// Its other one.
    pub(crate) zones: Zones,
    /// That of the collector of pods.
    pub(crate) lost_nodes: LostNodes,
    /// The CronJob controller's.
    pub(crate) schedule_changes: ScheduleChanges,
    /// The quota controller's.
    pub(crate) quota_activity: QuotaActivity,
    /// The endpoints controller's.
    pub(crate) orphaned_endpoints: OrphanedEndpoints,
    /// The disruption controller's.
    pub(crate) departures: PodDepartures,
    /// The autoscaler's.
    pub(crate) scaling: ScalingHistories,
    /// That of the brake on creations, which stands before every controller. It looks at the whole
    /// view for a change, and is told by the view itself.
    pub(crate) creations: CreationLedger,
}

impl ControllerMemories {
    /// An object came, changed or went. `cluster` has the nodes as they are now, `has_pods`
    /// answers whether pods are bound to one, and `has` whether there is such an object.
    pub(crate) fn follow(
        &mut self,
        (before, after): (Option<&ViewObject>, Option<&ViewObject>),
        cluster: &ClusterIndex,
        has_pods: impl Fn(&str) -> bool,
        has: impl Fn(ResourceKind, &NamespacedName) -> bool,
        now: Tick,
    ) {
        self.attempts.follow(before, after);
        self.heartbeats.follow(before, after, now);
        self.zones.follow(before, after);
        self.lost_nodes.follow((before, after), cluster, has_pods, now);
        self.schedule_changes.follow(before, after, now);
        self.quota_activity.follow(before, after, now);
        self.scaling.follow(before, after);
        self.departures.follow(before, after, now);
        self.orphaned_endpoints.follow((before, after), has, now);
    }
}
