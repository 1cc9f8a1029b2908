//! The identity that a pod has at the API.

/// Where its token lies in every container, unless the pod does without. Source: documentation,
/// "Configure Service Accounts for Pods".
pub const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
