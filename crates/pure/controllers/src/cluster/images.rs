//! Which nodes have an image, as their status says.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;

/// The images, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NodeImageIndex(BTreeMap<String, ImageNodes>);

/// The nodes that have an image.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ImageNodes {
    /// Its size on each, in bytes.
    bytes: BTreeMap<String, i64>,
    /// On how many nodes it has a size.
    sizes: BTreeMap<i64, usize>,
}

impl ImageNodes {
    fn insert(&mut self, node: &str, bytes: i64) {
        self.remove(node);
        self.bytes.insert(node.to_owned(), bytes);
        *self.sizes.entry(bytes).or_default() += 1;
    }

    fn remove(&mut self, node: &str) {
        let Some(bytes) = self.bytes.remove(node) else { return };
        let left = self.sizes.get(&bytes).map_or(0, |count| count.saturating_sub(1));
        if left == 0 {
            self.sizes.remove(&bytes);
        } else {
            self.sizes.insert(bytes, left);
        }
    }

    /// How many they are.
    pub(crate) fn count(&self) -> usize {
        self.bytes.len()
    }

    /// The size of the image in bytes, where it is the same on all of them.
    pub(crate) fn common_bytes(&self) -> Option<i64> {
        let mut sizes = self.sizes.keys();
        sizes.next().copied().filter(|_| sizes.next().is_none())
    }

    /// Its size on this node in bytes, where it is there.
    pub(crate) fn bytes_on(&self, node: &str) -> Option<i64> {
        self.bytes.get(node).copied()
    }
}

impl NodeImageIndex {
    pub(super) fn insert(&mut self, node_name: &str, node: &Node) {
        for (name, bytes) in listed(node) {
            match self.0.get_mut(name) {
                Some(nodes) => nodes.insert(node_name, bytes),
                None => self.0.entry(name.to_owned()).or_default().insert(node_name, bytes),
            }
        }
    }

    pub(super) fn remove(&mut self, node_name: &str, node: &Node) {
        for (name, _) in listed(node) {
            let Some(nodes) = self.0.get_mut(name) else { continue };
            nodes.remove(node_name);
            if nodes.count() == 0 {
                self.0.remove(name);
            }
        }
    }

    /// The nodes that have the image.
    pub(crate) fn nodes_with(&self, image: &str) -> Option<&ImageNodes> {
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
