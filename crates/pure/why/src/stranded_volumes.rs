//! Volumes of a pod that no node takes which lie on a node that is gone: the pod can run on that
//! node only.

use k8s_openapi::api::core::v1::{NodeSelector, PersistentVolume};
use rekindle_types::labels::HOSTNAME;
use rekindle_types::node_affinity::term_matches;

use crate::evidence::PodEvidence;
use crate::words::line;

/// A volume that no node there is can reach.
pub(crate) struct StrandedVolume<'a> {
    name: &'a str,
    claim: &'a str,
    nodes: Vec<&'a str>,
}

/// Those of the pod; none where the nodes or the volumes cannot be read.
pub(crate) fn stranded(evidence: &PodEvidence) -> Vec<StrandedVolume<'_>> {
    if evidence.nodes.is_empty() {
        return Vec::new();
    }
    let found = evidence.volumes.iter().filter_map(|volume| {
        let required = required(volume)?;
        let is_reached = evidence
            .nodes
            .iter()
            .any(|node| required.node_selector_terms.iter().any(|term| term_matches(term, node)));
        let claim = volume.spec.as_ref()?.claim_ref.as_ref()?.name.as_deref()?;
        (!is_reached).then(|| StrandedVolume {
            name: volume.metadata.name.as_deref().unwrap_or_default(),
            claim,
            nodes: hostnames(required),
        })
    });
    found.collect()
}

fn required(volume: &PersistentVolume) -> Option<&NodeSelector> {
    volume.spec.as_ref()?.node_affinity.as_ref()?.required.as_ref()
}

/// The nodes that its terms name.
fn hostnames(required: &NodeSelector) -> Vec<&str> {
    let terms = required.node_selector_terms.iter();
    let requirements = terms.flat_map(|term| term.match_expressions.iter().flatten());
    let by_name = requirements.filter(|one| one.key == HOSTNAME && one.operator == "In");
    by_name.flat_map(|one| one.values.iter().flatten().map(String::as_str)).collect()
}

impl StrandedVolume<'_> {
    fn place(&self) -> String {
        match self.nodes.as_slice() {
            [] => "on nodes that are gone".to_owned(),
            [node] => format!("on node {:?}, which is gone", line(node)),
            nodes => format!("on one of the nodes {}, which are gone", line(&nodes.join(", "))),
        }
    }

    /// As a sentence goes on after the scheduler's own.
    pub(crate) fn sentence(&self) -> String {
        format!("its volume {:?} of claim {:?} lies {}", self.name, self.claim, self.place())
    }

    /// What helps.
    pub(crate) fn advice(&self) -> String {
        format!(
            "bring that node back under its name with its disk; or, if the data may be lost, delete the claim {:?} and the pod, so that a new volume is made",
            self.claim
        )
    }
}
