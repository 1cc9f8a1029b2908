//! The pods of an autoscaler's target: those that its selector matches, of any controller, as
//! upstream. No other autoscaler may have one of them.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use rekindle_types::held::HeldPod;
use rekindle_types::labels;
use rekindle_types::validation::selector;

use super::target::{self, ScaleTarget};
use crate::{ClusterView, ResourceKind, ViewObject};

/// Why an autoscaler has no pods of its own. The texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoPodsOfItsOwn {
    #[error("selector is required")]
    NoSelector,
    /// Two autoscalers with the same pods would undo what the other does.
    #[error("pods by selector {selector} are controlled by multiple HPAs: [{}]", autoscalers.join(" "))]
    Shared { selector: String, autoscalers: Vec<String> },
}

impl NoPodsOfItsOwn {
    /// The reason of the event.
    pub(super) const fn reason(&self) -> &'static str {
        match self {
            Self::NoSelector => "SelectorRequired",
            Self::Shared { .. } => "AmbiguousSelector",
        }
    }

    /// Reason and message of the condition.
    pub(super) fn condition(&self) -> (&'static str, String) {
        match self {
            Self::NoSelector => {
                ("InvalidSelector", "the HPA target's scale is missing a selector".to_owned())
            }
            Self::Shared { .. } => ("AmbiguousSelector", self.to_string()),
        }
    }
}

/// The pods of a target, and how they are selected.
#[derive(Debug)]
pub(super) struct SelectedPods<'a> {
    pub(super) selector: &'a LabelSelector,
    pub(super) list: Vec<&'a HeldPod>,
}

/// The pods of a target.
///
/// # Errors
/// When the target has no selector, or another autoscaler has one of the pods.
pub(super) fn pods_of<'a>(
    view: &'a ClusterView,
    autoscaler: &'a HorizontalPodAutoscaler,
    target: &'a ScaleTarget,
) -> Result<SelectedPods<'a>, NoPodsOfItsOwn> {
    let namespace = autoscaler.metadata.namespace.as_deref().unwrap_or_default();
    let selector = target.scale.selector.as_ref().ok_or(NoPodsOfItsOwn::NoSelector)?;
    let all = view.in_namespace(ResourceKind::Pod, namespace).filter_map(|object| match object {
        ViewObject::Pod(pod) => Some(pod.as_ref()),
        _ => None,
    });
    let list: Vec<&HeldPod> = all.filter(|pod| selects(selector, pod)).collect();
    let autoscalers = autoscalers_of(view, autoscaler, &list);
    if autoscalers.len() > 1 {
        return Err(NoPodsOfItsOwn::Shared { selector: selector::format(selector), autoscalers });
    }
    Ok(SelectedPods { selector, list })
}

/// The names of this autoscaler and of all others that have one of its pods.
fn autoscalers_of(
    view: &ClusterView,
    autoscaler: &HorizontalPodAutoscaler,
    pods: &[&HeldPod],
) -> Vec<String> {
    let namespace = autoscaler.metadata.namespace.as_deref().unwrap_or_default();
    let all = view.in_namespace(ResourceKind::HorizontalPodAutoscaler, namespace);
    let all = all.filter_map(|object| match object {
        ViewObject::HorizontalPodAutoscaler(other) => Some(other),
        _ => None,
    });
    let selecting = all.filter(|other| {
        other.metadata.uid == autoscaler.metadata.uid || selects_any(view, other, pods)
    });
    selecting
        .map(|other| format!("{namespace}/{}", other.metadata.name.as_deref().unwrap_or_default()))
        .collect()
}

fn selects_any(view: &ClusterView, other: &HorizontalPodAutoscaler, pods: &[&HeldPod]) -> bool {
    let namespace = other.metadata.namespace.as_deref().unwrap_or_default();
    let target = target::find(view, namespace, &other.spec.scale_target_ref).ok();
    let selector = target.and_then(|target| target.scale.selector);
    selector.is_some_and(|selector| pods.iter().any(|pod| selects(&selector, pod)))
}

fn selects(selector: &LabelSelector, pod: &HeldPod) -> bool {
    labels::matches(selector, pod.metadata.labels.as_ref())
}
