//! New pods of a Job.
//!
//! Names follow from the Job's UID, the index and a number, so that the same pod is never made
//! twice (`names`).

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rekindle_types::reasons::event;
use rekindle_types::{EventSeverity, Tick};

use super::COMPONENT;
use super::per_index::IndexFailures;
use super::tracking::{FINALIZER, INDEX};
use crate::avoidance::{self, Avoided};
use crate::events::EventNote;
use crate::plan::{PlannedWrite, WriteNotes, WriteOperation};
use crate::{ClusterView, ResourceKind, ViewObject, WritePlan, names, owners};

/// The variable with the completion index.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// Creates a pod for each place, in batches of 1, 2, 4, …: a template that can never be created
/// costs one refused request. Those of an Indexed Job have an index.
pub(super) fn create(
    view: &ClusterView,
    job: &Arc<Job>,
    spec: &JobSpec,
    places: &[Option<u32>],
    per_index: Option<&IndexFailures<'_>>,
    now: Tick,
    plan: &mut WritePlan,
) {
    let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
    let workload = owners::root_uid(view, &ViewObject::Job(job.clone()));
    let avoided = avoidance::nodes_avoided_by_workload(view, namespace, &workload, now);
    let mut given = BTreeSet::new();
    let mut left = places;
    let mut batch_size = 1;
    while !left.is_empty() {
        let (now, later) = left.split_at(batch_size.min(left.len()));
        let steps = now.iter().map(|index| {
            let name = free_name(view, job, *index, &mut given);
            let mut pod = new_pod(job, spec, name, *index, &avoided);
            if let Some((per_index, index)) = per_index.zip(*index) {
                per_index.mark(spec, index, &mut pod.metadata);
            }
            creation(job, pod)
        });
        plan.then_all(steps.collect());
        left = later;
        batch_size *= 2;
    }
}

/// The first name of the Job's series, or of the index's, that is neither taken nor was lately.
fn free_name(
    view: &ClusterView,
    job: &Job,
    index: Option<u32>,
    given: &mut BTreeSet<String>,
) -> String {
    let uid = job.metadata.uid.as_deref().unwrap_or_default();
    let owner = job.metadata.name.as_deref().unwrap_or_default();
    let (series, tail) = match index {
        None => (uid.to_owned(), "-".to_owned()),
        Some(index) => (format!("{uid}/{index}"), format!("-{index}-")),
    };
    let stem = format!("{}{tail}", name_base(owner, tail.len()));
    let mut names = names::free(view, &job.metadata, stem, series);
    names.find(|name| given.insert(name.clone())).expect("there are more names than pods")
}

/// The Job's name, cut so that the pod's name has at most 63 letters, as upstream.
fn name_base(owner: &str, tail_len: usize) -> &str {
    let end = owner.len().min(63 - 5 - tail_len);
    owner[..end].trim_end_matches(['-', '.'])
}

fn new_pod(
    job: &Arc<Job>,
    spec: &JobSpec,
    name: String,
    index: Option<u32>,
    avoided: &Avoided,
) -> Pod {
    let template = spec.template.clone();
    let from = template.metadata.unwrap_or_default();
    let mut finalizers = from.finalizers.unwrap_or_default();
    finalizers.push(FINALIZER.to_owned());
    let mut pod = Pod {
        metadata: ObjectMeta {
            generate_name: Some(name[..name.len() - 5].to_owned()),
            name: Some(name),
            namespace: job.metadata.namespace.clone(),
            labels: from.labels,
            annotations: from.annotations,
            finalizers: Some(finalizers),
            owner_references: Some(vec![owners::controller_reference(
                ResourceKind::Job,
                &job.metadata,
            )]),
            ..Default::default()
        },
        spec: template.spec,
        status: None,
    };
    if let Some(index) = index {
        give_index(&mut pod, job, index);
    }
    avoidance::exclude(&mut pod, avoided);
    pod
}

fn creation(job: &Arc<Job>, pod: Pod) -> PlannedWrite {
    let about = ViewObject::Job(job.clone());
    let message = format!("Created pod: {}", pod.metadata.name.as_deref().unwrap_or_default());
    let success =
        EventNote::new(&about, EventSeverity::Normal, event::SUCCESSFUL_CREATE, message, COMPONENT);
    let failure = EventNote::new(
        &about,
        EventSeverity::Warning,
        event::FAILED_CREATE,
        "Error creating: ",
        COMPONENT,
    );
    PlannedWrite {
        write: WriteOperation::Create(pod.into()),
        report: Some(WriteNotes::new(success, failure)),
    }
}

/// Tells a pod its index: in annotation, label and variable, and by its host name.
fn give_index(pod: &mut Pod, job: &Job, index: u32) {
    let text = index.to_string();
    let meta = &mut pod.metadata;
    meta.labels.get_or_insert_default().insert(INDEX.to_owned(), text.clone());
    meta.annotations.get_or_insert_default().insert(INDEX.to_owned(), text);
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(format!("{}-{index}", job.metadata.name.as_deref().unwrap_or_default()));
    give_variable(spec);
}

fn give_variable(spec: &mut PodSpec) {
    let init = spec.init_containers.iter_mut().flatten();
    for container in init.chain(&mut spec.containers) {
        let env = container.env.get_or_insert_default();
        if env.iter().any(|variable| variable.name == INDEX_VARIABLE) {
            continue;
        }
        let field = ObjectFieldSelector {
            api_version: None,
            field_path: format!("metadata.labels['{INDEX}']"),
        };
        env.push(EnvVar {
            name: INDEX_VARIABLE.to_owned(),
            value: None,
            value_from: Some(EnvVarSource { field_ref: Some(field), ..Default::default() }),
        });
    }
}
