//! Secret (core/v1).

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::{defaults, keyed_data, tls_secret};
use crate::registry::object_meta::immutable;
use crate::registry::resource::{ApiKind, ResourceNames, ResourceScope, TableCell, TableColumn};
use crate::table::{AGE, NAME, age, column};
use crate::validation::{Path, text};

/// A token of a service account that never ends, from the time before TokenRequest.
pub const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";
/// The annotation with the name of that account.
pub const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
/// The key of its data with the token.
pub const TOKEN: &str = "token";
/// A certificate and its key.
const TLS_TYPE: &str = "kubernetes.io/tls";

impl ApiKind for Secret {
    const NAMES: ResourceNames = ResourceNames {
        singular: "secret",
        short_names: &[],
        categories: &[],
        scope: ResourceScope::Namespaced,
    };
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Type", "string", "Used to facilitate programmatic handling of secret data."),
        column("Data", "string", "Data contains the secret data."),
        AGE,
    ];
    const SELECTABLE_FIELDS: &'static [&'static str] = &["type"];

    fn set_defaults(&mut self) {
        defaults::text(&mut self.type_, "Opaque");
        // Write-only: what comes as text ends up in `data`.
        if let Some(texts) = self.string_data.take() {
            let data = self.data.get_or_insert_default();
            data.extend(texts.into_iter().map(|(key, text)| (key, ByteString(text.into_bytes()))));
        }
    }

    fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let mut bytes = 0;
        for (key, value) in self.data.iter().flatten() {
            errors.extend(keyed_data::key(key, &Path::new("data").key(key)));
            bytes += value.0.len();
        }
        errors.extend(keyed_data::size(bytes));
        errors.extend(required_by_type(self));
        errors
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if self.type_ != old.type_ {
            errors.push(immutable(Path::new("type"), text(self.type_.as_ref())));
        }
        if old.immutable == Some(true) {
            errors.extend(keyed_data::stays_immutable(self.immutable));
            if self.data != old.data {
                errors.push(keyed_data::frozen("data"));
            }
        }
        errors
    }

    fn warnings(&self) -> Vec<String> {
        let data = self.data.as_ref();
        match text(self.type_.as_ref()) {
            TLS_TYPE => data.and_then(tls_secret::warning).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn selectable_fields(&self) -> Vec<(&'static str, String)> {
        vec![("type", text(self.type_.as_ref()).to_owned())]
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        vec![
            text(self.metadata.name.as_ref()).into(),
            text(self.type_.as_ref()).into(),
            keyed_data::count(self.data.as_ref().map_or(0, |data| data.len())),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

/// What the well-known types must hold.
fn required_by_type(secret: &Secret) -> Vec<FieldError> {
    let field = |key: &str| Path::new("data").key(key);
    let get = |key: &str| secret.data.as_ref().and_then(|data| data.get(key));
    let missing = |keys: &[&str]| -> Vec<FieldError> {
        let missing = keys.iter().filter(|key| get(key).is_none());
        missing.map(|key| FieldError::required(field(key), "")).collect()
    };
    let json = |key: &str| -> Vec<FieldError> {
        match get(key).map(|value| serde_json::from_slice::<serde::de::IgnoredAny>(&value.0)) {
            None => vec![FieldError::required(field(key), "")],
            Some(Err(error)) => {
                vec![FieldError::invalid(
                    field(key),
                    "<secret contents redacted>",
                    error.to_string(),
                )]
            }
            Some(Ok(_)) => Vec::new(),
        }
    };
    match text(secret.type_.as_ref()) {
        TOKEN_TYPE => {
            let named = secret.metadata.annotations.as_ref().and_then(|all| all.get(ACCOUNT_NAME));
            if named.is_some_and(|account| !account.is_empty()) {
                return Vec::new();
            }
            vec![FieldError::required(
                Path::new("metadata").child("annotations").key(ACCOUNT_NAME),
                "",
            )]
        }
        "kubernetes.io/dockercfg" => json(".dockercfg"),
        "kubernetes.io/dockerconfigjson" => json(".dockerconfigjson"),
        "kubernetes.io/basic-auth" if get("username").is_none() && get("password").is_none() => {
            missing(&["username", "password"])
        }
        "kubernetes.io/ssh-auth" => missing(&["ssh-privatekey"]),
        TLS_TYPE => missing(&["tls.crt", "tls.key"]),
        _ => Vec::new(),
    }
}
