//! Which nodes have an image, as their status says.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;

/// Image name → node → size in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Images(BTreeMap<String, BTreeMap<String, i64>>);

impl Images {
    pub(super) fn insert(&mut self, node_name: &str, node: &Node) {
        for (name, bytes) in listed(node) {
            let nodes = match self.0.get_mut(name) {
                Some(nodes) => nodes,
                None => self.0.entry(name.to_owned()).or_default(),
            };
            nodes.insert(node_name.to_owned(), bytes);
        }
    }

    pub(super) fn remove(&mut self, node_name: &str, node: &Node) {
        for (name, _) in listed(node) {
            let Some(nodes) = self.0.get_mut(name) else { continue };
            nodes.remove(node_name);
            if nodes.is_empty() {
                self.0.remove(name);
            }
        }
    }

    /// The nodes that have the image, with its size in bytes there.
    pub(crate) fn nodes_with(&self, image: &str) -> Option<&BTreeMap<String, i64>> {
        self.0.get(image)
    }
}

/// Names and sizes. A name that a status lists twice counts once, as it stands last.
fn listed(node: &Node) -> impl Iterator<Item = (&str, i64)> {
    let images = node.status.iter().flat_map(|status| status.images.iter().flatten());
    images.flat_map(|image| {
        let bytes = image.size_bytes.unwrap_or_default();
        image.names.iter().flatten().map(move |name| (name.as_str(), bytes))
    })
}
