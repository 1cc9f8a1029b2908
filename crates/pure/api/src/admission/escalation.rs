//! Nobody gives away more than they have: a role may hold only what its writer may do, and a
//! binding may hand out only such roles, unless the writer has the right `escalate` or `bind`.
//! Source: upstream's `pkg/registry/rbac/*/policybased`.

use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef,
};
use rekindle_kinds::identity::MASTERS;
use rekindle_kinds::identity::{ClientIdentity, UserInfo};
use rekindle_kinds::rbac::GROUP;
use rekindle_kinds::registry::AnyObject;
use rekindle_kinds::validation::items;

use super::ObjectWrite;
use crate::auth::AccessAttributes;
use crate::auth::rbac::covers::describe;
use crate::auth::rbac::missing;
use crate::call::ApiCall;
use crate::object_meta;
use crate::status::ApiError;

/// The rules that an answer names of those that are not held.
const SHOWN_MAX: usize = 100;

/// Checks a role or binding that is about to be written; `old` is the one that it replaces.
pub(super) fn check(write: &ObjectWrite<'_>) -> Result<(), ApiError> {
    let ObjectWrite { call, new, old, part: _ } = *write;
    if call.entry.group != GROUP {
        return Ok(());
    }
    let ClientIdentity::User(user) = &call.request.identity else {
        return Err(ApiError::unauthorized());
    };
    if user.is_in(MASTERS) {
        return Ok(());
    }
    let writer = RoleWriter { call, user, name: object_meta::name(new) };
    let old = old.map(AnyObject::as_any);
    let any = new.as_any();
    if let Some(role) = any.downcast_ref::<Role>() {
        let before = old.and_then(|old| old.downcast_ref::<Role>());
        if before.is_some_and(|old| old.rules == role.rules) {
            return Ok(());
        }
        return writer.may_hold(items(role.rules.as_ref()));
    }
    if let Some(role) = any.downcast_ref::<ClusterRole>() {
        let before = old.and_then(|old| old.downcast_ref::<ClusterRole>());
        return writer.may_write_cluster_role(role, before);
    }
    let (reference, before) = if let Some(binding) = any.downcast_ref::<RoleBinding>() {
        let before = old.and_then(|old| old.downcast_ref::<RoleBinding>());
        (&binding.role_ref, before.map(|old| old.subjects == binding.subjects))
    } else if let Some(binding) = any.downcast_ref::<ClusterRoleBinding>() {
        let before = old.and_then(|old| old.downcast_ref::<ClusterRoleBinding>());
        (&binding.role_ref, before.map(|old| old.subjects == binding.subjects))
    } else {
        return Ok(());
    };
    // a roleRef never changes: with the same subjects, nothing is handed out
    if before == Some(true) { Ok(()) } else { writer.may_bind(reference) }
}

/// Who writes what.
struct RoleWriter<'a> {
    call: &'a ApiCall<'a>,
    user: &'a UserInfo,
    name: &'a str,
}

impl RoleWriter<'_> {
    fn may_write_cluster_role(
        &self,
        role: &ClusterRole,
        old: Option<&ClusterRole>,
    ) -> Result<(), ApiError> {
        let same_rules = old.is_some_and(|old| old.rules == role.rules);
        let same_parts = old.is_some_and(|old| old.aggregation_rule == role.aggregation_rule);
        if same_rules && same_parts {
            return Ok(());
        }
        if role.aggregation_rule.is_some() && !same_parts {
            let everything = PolicyRule {
                verbs: vec!["*".to_owned()],
                api_groups: Some(vec!["*".to_owned()]),
                resources: Some(vec!["*".to_owned()]),
                ..PolicyRule::default()
            };
            let held = self.call.api.rules_for(self.user, "")?;
            if !self.may(&self.call.path.resource, self.name, "escalate")?
                && missing(&held, &[everything]) != Ok(Vec::new())
            {
                let why = "must have cluster-admin privileges to use an aggregationRule";
                return Err(ApiError::forbidden(self.call.entry, self.name, why));
            }
        }
        self.may_hold(items(role.rules.as_ref()))
    }

    /// A role with these rules.
    fn may_hold(&self, rules: &[PolicyRule]) -> Result<(), ApiError> {
        if self.may(&self.call.path.resource, self.name, "escalate")? {
            return Ok(());
        }
        self.confirm(rules)
    }

    fn may_bind(&self, role: &RoleRef) -> Result<(), ApiError> {
        let namespace = self.call.path.namespace.as_str();
        let resource = match role.kind.as_str() {
            "Role" if namespace.is_empty() => {
                return Err(ApiError::bad_request("Namespace parameter required."));
            }
            "Role" => "roles",
            "ClusterRole" => "clusterroles",
            other => {
                let why = format!("unsupported role reference kind: {other:?}");
                return Err(ApiError::failure(why));
            }
        };
        if self.may(resource, &role.name, "bind")? {
            return Ok(());
        }
        let rules = self.call.api.with_policies(|policies| {
            policies.rules_of(role, namespace).map(<[PolicyRule]>::to_vec)
        })?;
        // Of a role that does not exist nobody knows what it will hold, as upstream.
        let Some(rules) = rules else {
            return Err(ApiError::absent(GROUP, &self.call.path.resource, &role.name));
        };
        self.confirm(&rules)
    }

    /// Whether the writer has a right of its own over this role.
    fn may(&self, resource: &str, name: &str, verb: &str) -> Result<bool, ApiError> {
        let what = AccessAttributes::Resource {
            verb,
            group: GROUP,
            resource,
            subresource: "",
            namespace: &self.call.path.namespace,
            name,
        };
        let verdict = self.call.api.decide(self.user, &what)?;
        Ok(matches!(verdict, crate::authority::AccessDecision::Allow(_)))
    }

    fn confirm(&self, rules: &[PolicyRule]) -> Result<(), ApiError> {
        let held = self.call.api.rules_for(self.user, &self.call.path.namespace)?;
        let missing = missing(&held, rules)
            .map_err(|error| ApiError::forbidden(self.call.entry, self.name, &error.to_string()))?;
        if missing.is_empty() {
            return Ok(());
        }
        let groups: Vec<String> =
            self.user.groups.iter().map(|group| format!("{group:?}")).collect();
        let mut shown: Vec<String> = missing.iter().take(SHOWN_MAX).map(describe).collect();
        if missing.len() > SHOWN_MAX {
            shown.push(format!("and {} more", missing.len() - SHOWN_MAX));
        }
        let why = format!(
            "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
            self.user.name,
            groups.join(" "),
            shown.join("\n")
        );
        Err(ApiError::forbidden(self.call.entry, self.name, &why))
    }
}
