//! A policy as its file writes it, and what is wrong with it. Source: upstream's
//! `apis/audit/validation`.

use rekindle_types::null_as_default;
use rekindle_types::validation::{FieldError, Path, names};
use serde::Deserialize;
use serde_json::Value;

use super::AuditDecision;
use super::rule::{AuditRule, GroupResources, RuleTarget};
use crate::level::{AuditLevel, AuditStage, StageSet};
use crate::recorded_object::ManagedFieldsMode;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WrittenPolicy {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    /// Any; it says nothing about requests.
    #[serde(default, rename = "metadata")]
    _metadata: Value,
    #[serde(default, deserialize_with = "null_as_default")]
    rules: Vec<WrittenRule>,
    #[serde(default, deserialize_with = "null_as_default")]
    omit_stages: Vec<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    omit_managed_fields: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct WrittenRule {
    #[serde(deserialize_with = "null_as_default")]
    level: String,
    #[serde(deserialize_with = "null_as_default")]
    users: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    user_groups: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    verbs: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    resources: Vec<GroupResources>,
    #[serde(deserialize_with = "null_as_default")]
    namespaces: Vec<String>,
    #[serde(rename = "nonResourceURLs", deserialize_with = "null_as_default")]
    non_resource_urls: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    omit_stages: Vec<String>,
    omit_managed_fields: Option<bool>,
}

impl WrittenPolicy {
    /// Its rules, each with what the policy says for all of them.
    ///
    /// # Errors
    /// All that is wrong.
    pub(super) fn rules(self) -> Result<Vec<AuditRule>, Vec<FieldError>> {
        let mut errors = Vec::new();
        let omitted = stages(&self.omit_stages, &Path::new("omitStages"), &mut errors);
        let path = Path::new("rules");
        if self.rules.is_empty() {
            errors.push(FieldError::required(&path, "a policy needs one rule at least"));
        }
        let rules = self.rules.into_iter().enumerate().map(|(index, rule)| {
            let of_rule = rule.omit_managed_fields.unwrap_or(self.omit_managed_fields);
            let managed_fields =
                if of_rule { ManagedFieldsMode::Omit } else { ManagedFieldsMode::Keep };
            rule.into_rule(&path.index(index), (omitted, managed_fields), &mut errors)
        });
        let rules = rules.collect();
        if errors.is_empty() { Ok(rules) } else { Err(errors) }
    }
}

impl WrittenRule {
    fn into_rule(
        self,
        path: &Path,
        (omitted, managed_fields): (StageSet, ManagedFieldsMode),
        errors: &mut Vec<FieldError>,
    ) -> AuditRule {
        let level = self.level(&path.child("level"), errors);
        self.check_urls(&path.child("nonResourceURLs"), errors);
        self.check_resources(&path.child("resources"), errors);
        let own = stages(&self.omit_stages, &path.child("omitStages"), errors);
        let target = if !self.non_resource_urls.is_empty() {
            RuleTarget::Paths(self.non_resource_urls)
        } else if self.namespaces.is_empty() && self.resources.is_empty() {
            RuleTarget::Any
        } else {
            RuleTarget::Resources { namespaces: self.namespaces, resources: self.resources }
        };
        AuditRule {
            decision: AuditDecision { level, omit_stages: omitted.union(own), managed_fields },
            users: self.users,
            user_groups: self.user_groups,
            verbs: self.verbs,
            target,
        }
    }

    fn level(&self, path: &Path, errors: &mut Vec<FieldError>) -> AuditLevel {
        let known = AuditLevel::from_name(&self.level);
        if self.level.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else if known.is_none() {
            let names = AuditLevel::ALL.map(AuditLevel::name);
            errors.push(FieldError::not_supported(path, &self.level, &names));
        }
        known.unwrap_or(AuditLevel::None)
    }

    fn check_urls(&self, path: &Path, errors: &mut Vec<FieldError>) {
        for (index, url) in self.non_resource_urls.iter().enumerate() {
            if url == "*" {
                continue;
            }
            if !url.starts_with('/') {
                let why = "non-resource URL rules must begin with a '/' character";
                errors.push(FieldError::invalid(path.index(index), url, why));
            }
            if url.find('*').is_some_and(|at| at + 1 < url.len()) {
                let why = "non-resource URL wildcards '*' must be the final character of the rule";
                errors.push(FieldError::invalid(path.index(index), url, why));
            }
        }
        let has_resources = !self.resources.is_empty() || !self.namespaces.is_empty();
        if has_resources && !self.non_resource_urls.is_empty() {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(FieldError::invalid(path, &self.non_resource_urls, why));
        }
    }

    fn check_resources(&self, path: &Path, errors: &mut Vec<FieldError>) {
        for (index, group) in self.resources.iter().enumerate() {
            let path = path.index(index);
            if !group.group.is_empty() {
                let problems = names::dns_subdomain(&group.group);
                if !problems.is_empty() {
                    let why = problems.join(",");
                    errors.push(FieldError::invalid(path.child("group"), &group.group, why));
                }
            }
            if group.resources.is_empty() && !group.resource_names.is_empty() {
                let why = "using resourceNames requires at least one resource";
                let path = path.child("resourceNames");
                errors.push(FieldError::invalid(path, &group.resource_names, why));
            }
        }
    }
}

fn stages(names: &[String], path: &Path, errors: &mut Vec<FieldError>) -> StageSet {
    let mut found = StageSet::NONE;
    for (index, name) in names.iter().enumerate() {
        match AuditStage::from_name(name) {
            Some(stage) => found = found.with(stage),
            None => {
                let allowed = AuditStage::ALL.map(AuditStage::name).join(",");
                let why = format!("allowed stages are {allowed}");
                errors.push(FieldError::invalid(path.index(index), name, why));
            }
        }
    }
    found
}
