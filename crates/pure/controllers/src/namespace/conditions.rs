//! The conditions of a namespace that is being deleted: what is left in it and what that waits for,
//! with upstream's wording.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition};
use rekindle_types::Tick;

use crate::{ClusterView, ResourceKind};

/// What is left in a namespace, in numbers of objects.
#[derive(Default)]
pub(super) struct RemainingContent {
    by_kind: BTreeMap<ResourceKind, usize>,
    by_finalizer: BTreeMap<String, usize>,
}

impl RemainingContent {
    /// Counts what the view shows.
    pub(super) fn count(
        view: &ClusterView,
        namespace: &str,
        kinds: impl Iterator<Item = ResourceKind>,
    ) -> Self {
        let mut left = Self::default();
        for object in kinds.flat_map(|kind| view.in_namespace(kind, namespace)) {
            *left.by_kind.entry(object.kind()).or_default() += 1;
            for finalizer in object.meta().finalizers.iter().flatten() {
                *left.by_finalizer.entry(finalizer.clone()).or_default() += 1;
            }
        }
        left
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_kind.is_empty()
    }

    fn resources(&self) -> Option<String> {
        listed(self.by_kind.iter().map(|(kind, count)| {
            let info = kind.info();
            format!("{}.{} has {count} resource instances", info.plural, info.group)
        }))
    }

    fn finalizers(&self) -> Option<String> {
        listed(
            self.by_finalizer
                .iter()
                .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances")),
        )
    }
}

/// The texts in the order of the alphabet; nothing when there are none.
fn listed(texts: impl Iterator<Item = String>) -> Option<String> {
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    Some(texts.join(", ")).filter(|text| !text.is_empty())
}

/// The namespace with the conditions that say what is left; nothing when it has them already.
pub(super) fn updated(
    namespace: &Namespace,
    left: &RemainingContent,
    now: Tick,
) -> Option<Namespace> {
    let mut updated = namespace.clone();
    let known = updated.status.get_or_insert_default().conditions.get_or_insert_default();
    for wanted in wanted(left) {
        match known.iter_mut().find(|condition| condition.type_ == wanted.type_) {
            Some(condition) => {
                let since = condition.last_transition_time.take();
                let since = since.filter(|_| condition.status == wanted.status);
                *condition = NamespaceCondition {
                    last_transition_time: since.or_else(|| Some(now.to_time())),
                    ..wanted
                };
            }
            None => known
                .push(NamespaceCondition { last_transition_time: Some(now.to_time()), ..wanted }),
        }
    }
    (updated != *namespace).then_some(updated)
}

/// The five conditions in upstream's order. The kinds are known and what is refused is tried again
/// at once, so that the first three have nothing to tell.
fn wanted(left: &RemainingContent) -> [NamespaceCondition; 5] {
    let removed = || condition("False", "ContentRemoved", "All content successfully removed");
    let discovered =
        condition("False", "ResourcesDiscovered", "All resources successfully discovered");
    let parsed =
        condition("False", "ParsedGroupVersions", "All legacy kube types successfully parsed");
    let deleted = condition(
        "False",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    );
    let resources = left.resources().map_or_else(removed, |resources| {
        let message = format!("Some resources are remaining: {resources}");
        condition("True", "SomeResourcesRemain", &message)
    });
    let finalizers = left.finalizers().map_or_else(removed, |finalizers| {
        let message =
            format!("Some content in the namespace has finalizers remaining: {finalizers}");
        condition("True", "SomeFinalizersRemain", &message)
    });
    [
        ("NamespaceDeletionDiscoveryFailure", discovered),
        ("NamespaceDeletionGroupVersionParsingFailure", parsed),
        ("NamespaceDeletionContentFailure", deleted),
        ("NamespaceContentRemaining", resources),
        ("NamespaceFinalizersRemaining", finalizers),
    ]
    .map(|(type_, condition)| NamespaceCondition { type_: type_.to_owned(), ..condition })
}

fn condition(status: &str, reason: &str, message: &str) -> NamespaceCondition {
    NamespaceCondition {
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        ..NamespaceCondition::default()
    }
}
