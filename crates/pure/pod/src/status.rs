//! `status` as the API shows it, built anew when something changed and written only if it differs.
//!
//! What a waiting container shows follows the kubelet: a reason that was given stays until it runs;
//! between a crash and a restart that comes at once, the end is shown; before the first start of a
//! round, ContainerCreating, or PodInitializing in a pod with init containers. `started` and
//! `ready` are what `health` says.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ContainerStatus, HostIP, PodIP, PodStatus, VolumeMountStatus};
use rekindle_types::reasons::waiting;
use rekindle_types::resources;

use crate::blueprint::{NetworkOwner, RoleInPod};
use crate::containers::PodContainer;
use crate::journal::{EndCause, Ground};
use crate::last_status;
use crate::phase;
use crate::status_view::StatusView;

/// All termination messages of a pod together, bytes (`MaxPodTerminationMessageLogLength`).
const MESSAGES_MAX: usize = 12 * 1024;

impl StatusView<'_> {
    pub(crate) fn build(&self) -> PodStatus {
        let before = self.before;
        let desired = self.context.desired;
        let declared = desired.api_phase();
        let sticky = declared.filter(|p| phase::is_final(p)).or(before.phase.as_deref());
        let phase = self.phase(sticky);
        let (reason, message) = self.reason(&phase, declared);
        let host_ips: Vec<HostIP> =
            desired.host_ips().iter().map(|ip| HostIP { ip: ip.to_string() }).collect();
        let pod_ips = self.pod_ips();
        let whole = self.context.resize.granted().pod.as_ref();
        let status = PodStatus {
            allocated_resources: whole.and_then(|own| own.requests.clone()),
            resources: whole.cloned(),
            conditions: Some(self.conditions(&phase, before)),
            container_statuses: self.container_statuses(ListOf::Regular),
            ephemeral_container_statuses: self.container_statuses(ListOf::Ephemeral),
            init_container_statuses: self.container_statuses(ListOf::Init),
            host_ip: host_ips.first().map(|ip| ip.ip.clone()),
            host_ips: Some(host_ips).filter(|list| !list.is_empty()),
            message,
            observed_generation: desired.pod().metadata.generation,
            phase: Some(phase),
            pod_ip: pod_ips.first().map(|ip| ip.ip.clone()),
            pod_ips: Some(pod_ips).filter(|list| !list.is_empty()),
            qos_class: self.qos_class(),
            reason,
            start_time: Some(self.context.lifecycle.start_time().to_time()),
            ..self.status_of_others()
        };
        if self.context.lifecycle.is_finished() { last_status::concluded(status) } else { status }
    }

    /// What the node does not write, as the API has it.
    fn status_of_others(&self) -> PodStatus {
        let Some(status) = self.context.desired.api_status() else { return PodStatus::default() };
        PodStatus {
            extended_resource_claim_status: status.extended_resource_claim_status.clone(),
            node_allocatable_resource_claim_statuses: status
                .node_allocatable_resource_claim_statuses
                .clone(),
            nominated_node_name: status.nominated_node_name.clone(),
            resize: status.resize.clone(),
            resource_claim_statuses: status.resource_claim_statuses.clone(),
            volume_health: status.volume_health.clone(),
            ..PodStatus::default()
        }
    }

    pub(crate) fn reason(
        &self,
        phase: &str,
        declared: Option<&str>,
    ) -> (Option<String>, Option<String>) {
        match self.context.lifecycle.end_cause() {
            Some(EndCause::Failed { reason, message, .. }) if phase == phase::FAILED => {
                return (Some(reason.clone()), Some(message.clone()));
            }
            Some(
                EndCause::Failed { .. }
                | EndCause::Deleted
                | EndCause::Completed
                | EndCause::DeclaredFinished,
            )
            | None => {}
        }
        // Kept as long as the phase is that it belongs to.
        let of_api = self.context.desired.api_status().filter(|_| declared == Some(phase));
        of_api.map_or((None, None), |status| (status.reason.clone(), status.message.clone()))
    }

    /// True when its node refused the pod, or when it was over before anything of it was begun: an
    /// agent that is started again learns of a pod that was refused only that it is over.
    fn was_never_taken_up(&self) -> bool {
        match self.context.lifecycle.end_cause() {
            Some(EndCause::Failed { ground, .. }) => *ground == Ground::NotAdmitted,
            Some(EndCause::DeclaredFinished) => {
                let told = self.context.desired.api_status();
                told.is_none_or(|status| {
                    status.container_statuses.is_none() && status.init_container_statuses.is_none()
                }) && !self.containers.iter().any(PodContainer::has_begun)
            }
            Some(EndCause::Deleted | EndCause::Completed) | None => false,
        }
    }

    fn qos_class(&self) -> Option<String> {
        let written = self.context.desired.api_status().and_then(|status| status.qos_class.clone());
        let spec = self.context.desired.pod().spec.as_ref();
        written.or_else(|| spec.map(|spec| resources::qos_class(spec).to_owned()))
    }

    fn pod_ips(&self) -> Vec<PodIP> {
        let of_node = match self.context.desired.network() {
            NetworkOwner::Host => self.context.desired.host_ips(),
            NetworkOwner::Own => &[],
        };
        let own = self.context.sandboxes.ips();
        let ips: &[IpAddr] = if own.is_empty() { of_node } else { own };
        if ips.is_empty() {
            // Before the sandbox stands again, the last known ones.
            return self.before.pod_ips.clone().unwrap_or_default();
        }
        ips.iter().map(|ip| PodIP { ip: ip.to_string() }).collect()
    }

    /// None of a pod that the node never took up, nor of one without such containers.
    fn container_statuses(&self, list: ListOf) -> Option<Vec<ContainerStatus>> {
        if self.was_never_taken_up() {
            return None;
        }
        let wanted = |role: RoleInPod| match role {
            RoleInPod::Init | RoleInPod::Sidecar => list == ListOf::Init,
            RoleInPod::Regular => list == ListOf::Regular,
            RoleInPod::Ephemeral => list == ListOf::Ephemeral,
        };
        let is_init = |role: RoleInPod| match role {
            RoleInPod::Init | RoleInPod::Sidecar => true,
            RoleInPod::Regular | RoleInPod::Ephemeral => false,
        };
        let has_init = self.containers.iter().any(|c| is_init(c.role()));
        let default =
            if has_init { waiting::POD_INITIALIZING } else { waiting::CONTAINER_CREATING };
        let message_max = MESSAGES_MAX / self.containers.len().max(1);
        let containers = self.containers.iter().filter(|c| wanted(c.role()));
        let of = |container: &PodContainer| {
            let granted = self.context.resize.granted().of(container.name());
            let resources = container.shown_resources(granted).clone();
            let status = container.status(default, message_max);
            let mounts = status.container_id.is_some().then(|| self.mounts_of(&status.name));
            ContainerStatus {
                allocated_resources: granted.requests.clone(),
                resources: Some(resources),
                volume_mounts: mounts.flatten(),
                ..status
            }
        };
        let mut list: Vec<_> = containers.map(of).collect();
        list.shrink_to_fit(); // it is kept as long as nothing changes
        Some(list).filter(|list| !list.is_empty())
    }

    /// The mounts of a container that was made, as its spec has them. A read-only mount tells how
    /// far that reaches: the runtimes here can always do what `IfPossible` wishes.
    fn mounts_of(&self, name: &str) -> Option<Vec<VolumeMountStatus>> {
        let spec = self.context.desired.pod().spec.as_ref()?;
        let all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        let all = all.map(|container| (&container.name, &container.volume_mounts));
        let added = spec.ephemeral_containers.iter().flatten();
        let mut all = all.chain(added.map(|added| (&added.name, &added.volume_mounts)));
        let (_, mounts) = all.find(|(own, _)| *own == name)?;
        let mounts = mounts.iter().flatten().map(|mount| VolumeMountStatus {
            name: mount.name.clone(),
            mount_path: mount.mount_path.clone(),
            read_only: mount.read_only.filter(|read_only| *read_only),
            recursive_read_only: (mount.read_only == Some(true)).then(|| {
                match mount.recursive_read_only.as_deref() {
                    Some("Enabled" | "IfPossible") => "Enabled".to_owned(),
                    _ => "Disabled".to_owned(),
                }
            }),
            volume_status: None,
        });
        Some(mounts.collect::<Vec<_>>()).filter(|mounts| !mounts.is_empty())
    }
}

/// Which list of the status.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListOf {
    Init,
    Regular,
    Ephemeral,
}
