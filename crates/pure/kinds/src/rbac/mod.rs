//! Role, ClusterRole, RoleBinding and ClusterRoleBinding (rbac.authorization.k8s.io/v1). What they
//! allow is decided in `auth::rbac` of the API.

mod binding;
mod cluster_role;
mod cluster_role_binding;
mod role;
mod role_binding;
mod rules;

/// The group of the kinds here.
pub const GROUP: &str = "rbac.authorization.k8s.io";
