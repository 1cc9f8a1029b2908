//! Projected volumes: files from several sources in one folder.

use k8s_openapi::api::core::v1::{
    ClusterTrustBundleProjection, KeyToPath, PodSpec, ProjectedVolumeSource,
    ServiceAccountTokenProjection, VolumeProjection,
};
use rekindle_types::validation::field_error::FieldError;

use super::{unsupported, volume_files};
use crate::cluster_trust_bundle;
use crate::validation::{ListKeys, Path, items, selector, shortened, signer_name};

/// A shorter token would be over before the container has read it.
const TOKEN_SECONDS_MIN: i64 = 600;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;

/// Checks all sources. Source: upstream's `validateProjectionSources`.
pub(super) fn check(projected: &ProjectedVolumeSource, field: &Path) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> =
        volume_files::mode(projected.default_mode, &field.child("defaultMode"))
            .into_iter()
            .collect();
    errors.extend(volume_files::user(projected.default_user, &field.child("defaultUser")));
    let mut taken: ListKeys<&str> = ListKeys::new();
    for (index, projection) in items(projected.sources.as_ref()).iter().enumerate() {
        errors.extend(source(projection, field, &field.child("sources").index(index)));
        for named in named_paths(projection) {
            if !named.path.is_empty() && taken.add(named.path).is_some() {
                let detail = "conflicting duplicate paths";
                errors.push(FieldError::invalid(field, shortened(named.shown), detail));
            }
        }
    }
    errors
}

/// A source that names nothing is taken, as upstream: it adds no file.
fn source(source: &VolumeProjection, volume: &Path, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let set = [
        ("secret", source.secret.is_some()),
        ("configMap", source.config_map.is_some()),
        ("downwardAPI", source.downward_api.is_some()),
        ("serviceAccountToken", source.service_account_token.is_some()),
        ("clusterTrustBundle", source.cluster_trust_bundle.is_some()),
        ("podCertificate", source.pod_certificate.is_some()),
    ];
    let set: Vec<&str> = set.into_iter().filter(|(_, set)| *set).map(|(name, _)| name).collect();
    if set.len() > 1 {
        let detail = "may not specify more than 1 volume type per source";
        errors.push(FieldError::forbidden(field, detail));
    }
    if source.pod_certificate.is_some() {
        let why = "the pod could not start; sources may be clusterTrustBundle, configMap, \
            downwardAPI, secret and serviceAccountToken";
        errors.push(unsupported(field.child("podCertificate"), why));
    }
    let secret = source.secret.as_ref().map(|secret| (&secret.name, &secret.items));
    let config_map = source.config_map.as_ref().map(|map| (&map.name, &map.items));
    for (kind, source) in [("secret", secret), ("configMap", config_map)] {
        let Some((name, keys)) = source else { continue };
        let field = field.child(kind);
        if name.is_empty() {
            errors.push(FieldError::required(field.child("name"), ""));
        }
        errors.extend(volume_files::keys(items(keys.as_ref()), &field.child("items")));
    }
    if let Some(downward) = &source.downward_api {
        let files = items(downward.items.as_ref());
        errors.extend(volume_files::files(files, &field.child("downwardAPI")));
    }
    if let Some(token) = &source.service_account_token {
        errors.extend(self::token(token, volume, &field.child("serviceAccountToken")));
    }
    if let Some(bundle) = &source.cluster_trust_bundle {
        // the field has another name in Kubernetes' own objects, which upstream's errors show
        errors.extend(trust_bundle(bundle, &field.child("clusterTrustBundlePEM")));
    }
    errors
}

fn trust_bundle(bundle: &ClusterTrustBundleProjection, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match (&bundle.name, &bundle.signer_name) {
        (Some(_), Some(_)) => {
            let why = "only one of name and signerName may be used";
            errors.push(FieldError::invalid_json(field, bundle, why));
        }
        (Some(name), None) => errors.extend(bundle_name(name, bundle, field)),
        (None, Some(signer)) => {
            let named = field.child("signerName");
            if signer.is_empty() {
                errors.push(FieldError::required(&named, "must be a valid signer name"));
            }
            errors.extend(signer_name::errors(signer, &named));
            if let Some(wanted) = &bundle.label_selector {
                errors.extend(selector::check(wanted, &field.child("labelSelector")));
            }
        }
        (None, None) => {
            let why = "either name or signerName must be specified";
            errors.push(FieldError::required(field, why));
        }
    }
    errors.extend(volume_files::file_path(&bundle.path, &field.child("path")));
    errors.extend(volume_files::user(bundle.user, &field.child("user")));
    errors
}

fn bundle_name(name: &str, bundle: &ClusterTrustBundleProjection, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let named = field.child("name");
    if name.is_empty() {
        errors.push(FieldError::required(&named, "must be a valid object name"));
    }
    let signer = cluster_trust_bundle::signer_of_name(name).unwrap_or_default();
    for why in cluster_trust_bundle::name_mistakes(name, &signer) {
        let why = format!("not a valid clustertrustbundlename: {why}");
        errors.push(FieldError::invalid(&named, name, why));
    }
    if let Some(wanted) = &bundle.label_selector {
        let why = "labelSelector must be unset if name is specified";
        errors.push(FieldError::invalid_json(field.child("labelSelector"), wanted, why));
    }
    errors
}

fn token(token: &ServiceAccountTokenProjection, volume: &Path, field: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let seconds = token.expiration_seconds.unwrap_or(TOKEN_SECONDS_MIN);
    let expiration = field.child("expirationSeconds");
    if seconds < TOKEN_SECONDS_MIN {
        let detail = "may not specify a duration less than 10 minutes";
        errors.push(FieldError::invalid(&expiration, seconds, detail));
    }
    if seconds > TOKEN_SECONDS_MAX {
        let detail = "may not specify a duration larger than 2^32 seconds";
        errors.push(FieldError::invalid(&expiration, seconds, detail));
    }
    // a path that is missing is named without its source, as upstream
    let named = if token.path.is_empty() { volume } else { field };
    errors.extend(volume_files::file_path(&token.path, &named.child("path")));
    errors.extend(volume_files::user(token.user, &field.child("user")));
    errors
}

/// A path that a source gives a file, with what the error shows for it: the object that the file is
/// of, if there is one.
struct ProjectedPath<'a> {
    path: &'a str,
    shown: &'a str,
}

/// Two sources may not give one path; where a token lies is not looked at, as upstream.
fn named_paths(source: &VolumeProjection) -> impl Iterator<Item = ProjectedPath<'_>> {
    let secret = source.secret.iter().flat_map(|secret| paths_of_keys(&secret.name, &secret.items));
    let config_map = source.config_map.iter().flat_map(|map| paths_of_keys(&map.name, &map.items));
    let files = source.downward_api.iter().flat_map(|api| api.items.iter().flatten());
    let downward = files.map(|file| ProjectedPath { path: &file.path, shown: &file.path });
    let bundle = source.cluster_trust_bundle.iter();
    let bundle = bundle.map(|bundle| ProjectedPath { path: &bundle.path, shown: &bundle.path });
    secret.chain(config_map).chain(downward).chain(bundle)
}

fn paths_of_keys<'a>(
    object: &'a str,
    keys: &'a Option<Vec<KeyToPath>>,
) -> impl Iterator<Item = ProjectedPath<'a>> {
    keys.iter().flatten().map(move |key| ProjectedPath { path: &key.path, shown: object })
}

/// A pod without a service account, as a mirror is, has no tokens.
pub(crate) fn tokens_of_nobody(spec: &PodSpec, field: &Path) -> Vec<FieldError> {
    if spec.service_account_name.as_ref().is_some_and(|name| !name.is_empty()) {
        return Vec::new();
    }
    let mut errors = Vec::new();
    for (index, volume) in items(spec.volumes.as_ref()).iter().enumerate() {
        let field = field.child("volumes").index(index).child("projected").child("sources");
        let sources = volume.projected.iter().flat_map(|source| source.sources.iter().flatten());
        for (position, source) in sources.enumerate() {
            if source.service_account_token.is_some() {
                let field = field.index(position).child("serviceAccountToken");
                let detail = "must not be specified when serviceAccountName is not set";
                errors.push(FieldError::forbidden(field, detail));
            }
        }
    }
    errors
}
