//! All roles and bindings, as far as decisions need them. Changed by one object at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use rekindle_kinds::identity::UserInfo;
use rekindle_kinds::identity::service_account;
use rekindle_kinds::validation::text;

use super::rule;
use crate::auth::AccessAttributes;

/// The roles and bindings.
#[derive(Clone, Debug, Default)]
pub struct RbacPolicies {
    cluster_roles: BTreeMap<String, Vec<PolicyRule>>,
    cluster_bindings: BTreeMap<String, PolicyBinding>,
    namespaces: BTreeMap<String, NamespacePolicies>,
}

/// Those of one namespace.
#[derive(Clone, Debug, Default)]
struct NamespacePolicies {
    roles: BTreeMap<String, Vec<PolicyRule>>,
    bindings: BTreeMap<String, PolicyBinding>,
}

#[derive(Clone, Debug)]
struct PolicyBinding {
    role: RoleRef,
    subjects: Vec<Subject>,
}

/// One change of one object.
#[derive(Clone, Debug)]
pub enum PolicyChange {
    /// A role is there.
    Role(Role),
    /// A cluster role is there.
    ClusterRole(ClusterRole),
    /// A binding is there.
    RoleBinding(RoleBinding),
    /// A cluster binding is there.
    ClusterRoleBinding(ClusterRoleBinding),
}

/// What is no more: a kind by its plural name, a namespace, a name.
#[derive(Clone, Copy, Debug)]
pub struct DeletedPolicy<'a> {
    /// `roles`, …
    pub plural: &'a str,
    /// Empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
}

/// Why something is allowed: the binding with its role and the subject in it.
#[derive(Clone, Copy, Debug)]
pub struct AccessGrant<'a> {
    namespace: Option<&'a str>,
    binding: &'a str,
    role: &'a RoleRef,
    subject: &'a Subject,
    rules: &'a [PolicyRule],
}

impl AccessGrant<'_> {
    /// The rules that it gives.
    pub fn rules(&self) -> &[PolicyRule] {
        self.rules
    }
}

impl fmt::Display for AccessGrant<'_> {
    /// As upstream explains itself in the reason of a SubjectAccessReview.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, binding, role, subject, rules: _ } = self;
        let (kind, place) = match namespace {
            Some(namespace) => ("RoleBinding", format!("{binding}/{namespace}")),
            None => ("ClusterRoleBinding", (*binding).to_owned()),
        };
        let who = match (subject.kind.as_str(), text(subject.namespace.as_ref())) {
            ("ServiceAccount", of) => format!("{}/{of}", subject.name),
            (_, _) => subject.name.clone(),
        };
        write!(
            f,
            "RBAC: allowed by {kind} {place:?} of {} {:?} to {} {who:?}",
            role.kind, role.name, subject.kind
        )
    }
}

impl RbacPolicies {
    /// An object is there, new or changed.
    pub fn apply(&mut self, change: PolicyChange) {
        match change {
            PolicyChange::ClusterRole(role) => {
                let name = role.metadata.name.unwrap_or_default();
                self.cluster_roles.insert(name, role.rules.unwrap_or_default());
            }
            PolicyChange::ClusterRoleBinding(binding) => {
                let name = binding.metadata.name.unwrap_or_default();
                let subjects = binding.subjects.unwrap_or_default();
                self.cluster_bindings
                    .insert(name, PolicyBinding { role: binding.role_ref, subjects });
            }
            PolicyChange::Role(role) => {
                let of = role.metadata.namespace.unwrap_or_default();
                let name = role.metadata.name.unwrap_or_default();
                let rules = role.rules.unwrap_or_default();
                self.namespaces.entry(of).or_default().roles.insert(name, rules);
            }
            PolicyChange::RoleBinding(binding) => {
                let of = binding.metadata.namespace.unwrap_or_default();
                let name = binding.metadata.name.unwrap_or_default();
                let subjects = binding.subjects.unwrap_or_default();
                let binding = PolicyBinding { role: binding.role_ref, subjects };
                self.namespaces.entry(of).or_default().bindings.insert(name, binding);
            }
        }
    }

    /// An object is gone.
    pub fn remove(&mut self, gone: DeletedPolicy<'_>) {
        match gone.plural {
            "clusterroles" => {
                self.cluster_roles.remove(gone.name);
            }
            "clusterrolebindings" => {
                self.cluster_bindings.remove(gone.name);
            }
            _ => {
                let Some(inside) = self.namespaces.get_mut(gone.namespace) else { return };
                match gone.plural {
                    "roles" => inside.roles.remove(gone.name).is_some(),
                    _ => inside.bindings.remove(gone.name).is_some(),
                };
                if inside.roles.is_empty() && inside.bindings.is_empty() {
                    self.namespaces.remove(gone.namespace);
                }
            }
        }
    }

    /// Why the user may do it; none when nothing allows it.
    pub fn allows<'a>(
        &'a self,
        user: &'a UserInfo,
        what: &AccessAttributes<'a>,
    ) -> Option<AccessGrant<'a>> {
        let namespace = match what {
            AccessAttributes::Resource { namespace, .. } => *namespace,
            AccessAttributes::Path { .. } => "",
        };
        self.grants(user, namespace)
            .find(|grant| grant.rules.iter().any(|rule| rule::allows(rule, what)))
    }

    /// Whether a binding that names the user itself, and no group of theirs, allows it.
    pub fn allows_by_name(&self, user: &UserInfo, what: &AccessAttributes<'_>) -> bool {
        let namespace = match what {
            AccessAttributes::Resource { namespace, .. } => *namespace,
            AccessAttributes::Path { .. } => "",
        };
        self.grants(user, namespace)
            .filter(|grant| grant.subject.kind == "User")
            .any(|grant| grant.rules.iter().any(|rule| rule::allows(rule, what)))
    }

    /// Everything that the user was given, in the cluster and (unless that is empty) in a
    /// namespace.
    pub fn grants<'a>(
        &'a self,
        user: &'a UserInfo,
        namespace: &'a str,
    ) -> impl Iterator<Item = AccessGrant<'a>> {
        let groups: BTreeSet<&str> = user.groups.iter().map(String::as_str).collect();
        let everywhere = self.cluster_bindings.iter().map(|known| (None, known));
        let inside = self.namespaces.get_key_value(namespace);
        let here = inside.into_iter().flat_map(|(namespace, inside)| {
            inside.bindings.iter().map(|known| (Some(namespace.as_str()), known))
        });
        everywhere.chain(here).filter_map(move |(namespace, (name, binding))| {
            let of = namespace.unwrap_or_default();
            let subject =
                binding.subjects.iter().find(|subject| names(subject, user, &groups, of))?;
            let rules = self.rules_of(&binding.role, of)?;
            Some(AccessGrant { namespace, binding: name, role: &binding.role, subject, rules })
        })
    }

    /// The rules of a role as a binding in this namespace (empty: of the cluster) means it; none
    /// when there is no such role.
    pub fn rules_of(&self, role: &RoleRef, namespace: &str) -> Option<&[PolicyRule]> {
        let rules = match role.kind.as_str() {
            "ClusterRole" => self.cluster_roles.get(&role.name),
            "Role" => self.namespaces.get(namespace)?.roles.get(&role.name),
            _ => None,
        };
        rules.map(Vec::as_slice)
    }
}

/// Whether a subject of a binding in this namespace means the user.
fn names(subject: &Subject, user: &UserInfo, groups: &BTreeSet<&str>, namespace: &str) -> bool {
    match subject.kind.as_str() {
        "User" => subject.name == user.name,
        "Group" => groups.contains(subject.name.as_str()),
        "ServiceAccount" => {
            let of = match text(subject.namespace.as_ref()) {
                "" => namespace,
                other => other,
            };
            !of.is_empty() && service_account::is_user_name(&user.name, of, &subject.name)
        }
        _ => false,
    }
}
