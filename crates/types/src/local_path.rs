//! What controllers and node say to each other about volumes of the class local-path.

/// The class.
pub const CLASS: &str = "local-path";
/// Who makes its volumes: the node that the first pod goes to.
pub const PROVISIONER: &str = "rekindle.dev/local-path";
/// Annotation of a claim: the node that the scheduler chose for its first pod. Source: the API reference.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Annotation of a volume: who made it. Source: the API reference.
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Finalizer of a volume that a node made: what lies on its disk has not been dealt with.
pub const FOLDER_FINALIZER: &str = "rekindle.dev/local-path-folder";

/// The volume that is made for the claim with this UID: making it twice is a conflict, never a double.
pub fn volume_name(claim_uid: &str) -> String {
    format!("pvc-{claim_uid}")
}
