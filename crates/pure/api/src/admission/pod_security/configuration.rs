//! `PodSecurityConfiguration`: the defaults of namespaces without labels, and the exemptions.
//!
//! Source: upstream's `pod-security-admission/admission/api`.

use std::collections::BTreeSet;

use rekindle_kinds::validation::{Path, names};
use rekindle_types::validation::field_error::FieldError;
use serde::Deserialize;
use serde_json::Value;

use super::policy::{LevelAtVersion, NamespacePolicy, PolicyLevel, PolicyVersion};

/// Its versions, all with the same fields.
const API_VERSIONS: [&str; 3] = [
    "pod-security.admission.config.k8s.io/v1",
    "pod-security.admission.config.k8s.io/v1beta1",
    "pod-security.admission.config.k8s.io/v1alpha1",
];
const KIND: &str = "PodSecurityConfiguration";

/// Defaults and exemptions of Pod Security admission for the whole cluster. Without one, nothing is
/// asked of pods where their namespace asks for nothing, and nothing is exempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSecurityConfiguration {
    /// The policy of a namespace without labels.
    pub(super) defaults: NamespacePolicy,
    /// Requests of these users are not checked.
    pub(super) usernames: BTreeSet<String>,
    /// Requests in these namespaces are not checked.
    pub(super) namespaces: BTreeSet<String>,
    /// Pods with these runtime classes are not checked.
    pub(super) runtime_classes: BTreeSet<String>,
}

impl Default for PodSecurityConfiguration {
    fn default() -> Self {
        Self {
            defaults: NamespacePolicy::PRIVILEGED,
            usernames: BTreeSet::new(),
            namespaces: BTreeSet::new(),
            runtime_classes: BTreeSet::new(),
        }
    }
}

/// Why it is none.
#[derive(Debug, thiserror::Error)]
pub enum PodSecurityConfigurationError {
    /// It is of another kind or version.
    #[error("apiVersion {api_version:?}, kind {kind:?}: must be {KIND} of one of {}", API_VERSIONS.join(", "))]
    Kind {
        /// What it says.
        api_version: String,
        /// What it says.
        kind: String,
    },
    /// A field is not known, or of another type.
    #[error("{0}")]
    Shape(#[from] serde_json::Error),
    /// A value is not allowed.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Fields(Vec<FieldError>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenConfiguration {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(default)]
    defaults: WrittenDefaults,
    #[serde(default)]
    exemptions: WrittenExemptions,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct WrittenDefaults {
    enforce: String,
    enforce_version: String,
    audit: String,
    audit_version: String,
    warn: String,
    warn_version: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct WrittenExemptions {
    usernames: Vec<String>,
    namespaces: Vec<String>,
    runtime_classes: Vec<String>,
}

impl PodSecurityConfiguration {
    /// Reads one.
    ///
    /// # Errors
    /// When it is of another kind, has fields that are not known, or values that are not allowed:
    /// all of these at once.
    pub fn from_value(value: Value) -> Result<Self, PodSecurityConfigurationError> {
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if kind != KIND || !API_VERSIONS.contains(&api_version.as_str()) {
            return Err(PodSecurityConfigurationError::Kind { api_version, kind });
        }
        let WrittenConfiguration { defaults, exemptions, .. } = serde_json::from_value(value)?;
        let mut errors = Vec::new();
        let mut of = |field: &str, level: &str, version: &str| LevelAtVersion {
            level: read_or(level, PolicyLevel::Privileged, PolicyLevel::parse, field, &mut errors),
            version: read_or(
                version,
                PolicyVersion::Latest,
                PolicyVersion::parse,
                &format!("{field}-version"),
                &mut errors,
            ),
        };
        let defaults = NamespacePolicy {
            enforce: of("enforce", &defaults.enforce, &defaults.enforce_version),
            warn: of("warn", &defaults.warn, &defaults.warn_version),
            audit: of("audit", &defaults.audit, &defaults.audit_version),
        };
        let configuration = Self {
            defaults,
            namespaces: unique(exemptions.namespaces, "namespaces", names::dns_label, &mut errors),
            runtime_classes: unique(
                exemptions.runtime_classes,
                "runtimeClasses",
                names::dns_subdomain,
                &mut errors,
            ),
            usernames: unique(exemptions.usernames, "usernames", |_| Vec::new(), &mut errors),
        };
        match errors.is_empty() {
            true => Ok(configuration),
            false => Err(PodSecurityConfigurationError::Fields(errors)),
        }
    }
}

/// The value of a field of the defaults; `default` if the field is absent.
fn read_or<T>(
    text: &str,
    default: T,
    parse: fn(&str) -> Result<T, &'static str>,
    field: &str,
    errors: &mut Vec<FieldError>,
) -> T {
    if text.is_empty() {
        return default;
    }
    parse(text).unwrap_or_else(|why| {
        errors.push(FieldError::invalid(Path::new("defaults").child(field), text, why));
        default
    })
}

/// The names of a list of exemptions, each once and as its kind of name must look.
fn unique(
    given: Vec<String>,
    list: &str,
    wrong: fn(&str) -> Vec<String>,
    errors: &mut Vec<FieldError>,
) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    for (index, name) in given.into_iter().enumerate() {
        let field = Path::new("exemptions").child(list).index(index);
        let problems = wrong(&name);
        if name.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if !problems.is_empty() {
            errors.push(FieldError::invalid(field, name, problems.join(", ")));
        } else if !known.insert(name.clone()) {
            errors.push(FieldError::duplicate(field, name));
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(mut value: Value) -> Result<PodSecurityConfiguration, String> {
        value["apiVersion"] = API_VERSIONS[0].into();
        value["kind"] = KIND.into();
        PodSecurityConfiguration::from_value(value).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_left_out_asks_for_nothing() {
        assert_eq!(read(json!({})), Ok(PodSecurityConfiguration::default()));
        let given = read(json!({
            "defaults": {"enforce": "baseline", "enforce-version": "v1.25", "warn": "restricted"},
            "exemptions": {"usernames": ["system:x"], "namespaces": ["kube-system"], "runtimeClasses": ["kata"]},
        }))
        .unwrap();
        assert_eq!(given.defaults.enforce.to_string(), "baseline:v1.25");
        assert_eq!(given.defaults.warn.to_string(), "restricted:latest");
        assert_eq!(given.defaults.audit.to_string(), "privileged:latest");
        assert!(given.usernames.contains("system:x") && given.namespaces.contains("kube-system"));
        assert!(given.runtime_classes.contains("kata"));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_field() {
        for (value, expected) in [
            (
                json!({"defaults": {"enforce": "strict", "warn-version": "1.2"}}),
                "defaults.enforce: Invalid value: \"strict\": must be one of privileged, baseline, restricted, \
                 defaults.warn-version: Invalid value: \"1.2\": must be \"latest\" or \"v1.x\"",
            ),
            (
                json!({"exemptions": {"usernames": ["a", ""], "namespaces": ["x", "x"]}}),
                "exemptions.namespaces[1]: Duplicate value: \"x\", exemptions.usernames[1]: Required value",
            ),
            (json!({"default": {}}), "unknown field `default`"),
            (json!({"defaults": {"enforceVersion": "v1.25"}}), "unknown field `enforceVersion`"),
            (json!({"exemptions": {"namespaces": "x"}}), "invalid type: string \"x\""),
        ] {
            let error = read(value.clone()).unwrap_err();
            assert!(error.contains(expected), "{value}: {error}");
        }
        let error = PodSecurityConfiguration::from_value(json!({"kind": "Pod"})).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("apiVersion \"\", kind \"Pod\": must be PodSecurityConfiguration of")
        );
    }
}
