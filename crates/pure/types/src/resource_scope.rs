//! Whether objects of a kind live in a namespace.

/// Whether objects of a kind live in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceScope {
    /// In a namespace.
    Namespaced,
    /// In none.
    Cluster,
}
