//! Conditions, whichever kind of object they are of.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::Tick;

use crate::evidence::WorkloadObjects;

/// Why the scheduler does not look at a pod yet.
pub(crate) const GATED: &str = "SchedulingGated";

/// A condition of any workload.
pub(crate) struct WorkloadCondition<'a> {
    pub(crate) type_: &'a str,
    pub(crate) status: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
    pub(crate) since: Option<Tick>,
}

/// A text of the API, whether its type may lack it or not.
trait ApiText {
    fn said(&self) -> &str;
}

impl ApiText for String {
    fn said(&self) -> &str {
        self
    }
}

impl ApiText for Option<String> {
    fn said(&self) -> &str {
        self.as_deref().unwrap_or_default()
    }
}

/// The types of conditions have the same fields and nothing else in common.
macro_rules! read {
    ($object:expr) => {
        ($object.status.iter().flat_map(|status| status.conditions.iter().flatten()))
            .map(|condition| WorkloadCondition {
                type_: condition.type_.said(),
                status: condition.status.said(),
                reason: condition.reason.said(),
                message: condition.message.said(),
                since: condition.last_transition_time.as_ref().map(Tick::from),
            })
            .collect()
    };
}

/// The conditions of the object itself. A CronJob has none.
pub(crate) fn conditions(workload: &WorkloadObjects) -> Vec<WorkloadCondition<'_>> {
    match workload {
        WorkloadObjects::CronJob(..) => Vec::new(),
        WorkloadObjects::DaemonSet(set) => read!(set),
        WorkloadObjects::Deployment(deployment, _) => read!(deployment),
        WorkloadObjects::Job(job) => job_conditions(job),
        WorkloadObjects::ReplicaSet(set) => read!(set),
        WorkloadObjects::ReplicationController(controller) => read!(controller),
        WorkloadObjects::StatefulSet(set) => read!(set),
    }
}

/// The conditions of a Job.
pub(crate) fn job_conditions(job: &k8s_openapi::api::batch::v1::Job) -> Vec<WorkloadCondition<'_>> {
    read!(job)
}

/// What kind of object it is, and its metadata.
pub(crate) fn identity(workload: &WorkloadObjects) -> (&'static str, &ObjectMeta) {
    match workload {
        WorkloadObjects::CronJob(cron_job, _) => ("CronJob", &cron_job.metadata),
        WorkloadObjects::DaemonSet(set) => ("DaemonSet", &set.metadata),
        WorkloadObjects::Deployment(deployment, _) => ("Deployment", &deployment.metadata),
        WorkloadObjects::Job(job) => ("Job", &job.metadata),
        WorkloadObjects::ReplicaSet(set) => ("ReplicaSet", &set.metadata),
        WorkloadObjects::ReplicationController(controller) => {
            ("ReplicationController", &controller.metadata)
        }
        WorkloadObjects::StatefulSet(set) => ("StatefulSet", &set.metadata),
    }
}

/// What helps a node of which this condition says this.
pub(crate) fn advice_of_node(condition: &str, status: &str) -> &'static str {
    match (condition, status) {
        ("Ready", "Unknown") => {
            "its agent has stopped reporting: look whether machine, network and agent are there"
        }
        ("Ready", _) => {
            "its agent reports that it is not ready: the condition's message says what is missing"
        }
        ("MemoryPressure", _) => "free memory on it, or move pods away",
        ("DiskPressure", _) => "free disk space on it: images, logs, emptyDir volumes",
        ("PIDPressure", _) => "too many processes: look which pod starts them",
        ("NetworkUnavailable", _) => "its network is not set up",
        (_, _) => "look at the condition's message",
    }
}
