//! What a new pod takes over from its ServiceAccount: an identity at the API, mounted into its
//! containers, and the secrets to pull with, unless the pod names its own. Source: upstream's
//! `plugin/pkg/admission/serviceaccount`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    ConfigMapProjection, Container, DownwardAPIProjection, DownwardAPIVolumeFile, KeyToPath,
    ObjectFieldSelector, Pod, PodSpec, ProjectedVolumeSource, ServiceAccount,
    ServiceAccountTokenProjection, Volume, VolumeMount, VolumeProjection,
};
use rekindle_kinds::registry::AnyObject;
use rekindle_kinds::validation::{items, text};
use rekindle_types::pod_annotations::is_mirror;
use rekindle_types::service_account::MOUNT_PATH;

use super::namespaces::CA_BUNDLE;
use crate::call::ApiCall;
use crate::keys;
use crate::status::ApiError;

/// The account of pods that name none.
const DEFAULT_ACCOUNT: &str = "default";
/// What the name of the volume with the identity begins with.
const VOLUME_PREFIX: &str = "kube-api-access-";
/// An hour and a little, by which upstream's servers know tokens that admission has asked for.
const TOKEN_SECONDS: i64 = 3607;
/// The mode of the volume's files, unless the node narrows it for the token.
const FILE_MODE: i32 = 0o644;

/// Fills in a pod that is being created. A pod cannot act for an account that does not exist.
pub(super) fn fill_new(call: &ApiCall<'_>, object: &mut dyn AnyObject) -> Result<(), ApiError> {
    if !call.entry.group.is_empty() || call.entry.kind != "Pod" {
        return Ok(());
    }
    let Some(pod) = object.as_any_mut().downcast_mut::<Pod>() else { return Ok(()) };
    if is_mirror(pod) {
        return Ok(()); // it shows what a node runs already
    }
    let name = pod.metadata.name.clone().unwrap_or_default();
    let Some(spec) = &mut pod.spec else { return Ok(()) };
    let Some(account) = account_of(call, spec, &name)? else { return Ok(()) };
    if items(spec.image_pull_secrets.as_ref()).is_empty() {
        spec.image_pull_secrets.clone_from(&account.image_pull_secrets);
    }
    // An API that issues no tokens has no identity to give.
    if call.api.tokens.are_issued() && is_wanted(spec, &account) {
        mount_identity(spec, || call.generated_name(VOLUME_PREFIX));
    }
    Ok(())
}

/// The account that the pod names; none when this API serves no accounts.
fn account_of(
    call: &ApiCall<'_>,
    spec: &PodSpec,
    pod: &str,
) -> Result<Option<Arc<ServiceAccount>>, ApiError> {
    let Some(entry) = call.api.registry.find("", "v1", "serviceaccounts") else {
        return Ok(None);
    };
    let name = match text(spec.service_account_name.as_ref()) {
        "" => DEFAULT_ACCOUNT,
        name => name,
    };
    let namespace = &call.path.namespace;
    let Some(stored) = call.api.store.newest(&keys::object(entry, namespace, name)) else {
        let why = format!(
            "error looking up service account {namespace}/{name}: serviceaccount {name:?} not found"
        );
        return Err(ApiError::forbidden(call.entry, pod, &why));
    };
    call.api.read_as(entry, &stored)
}

/// The pod's own word counts before that of its account.
fn is_wanted(spec: &PodSpec, account: &ServiceAccount) -> bool {
    spec.automount_service_account_token.or(account.automount_service_account_token).unwrap_or(true)
}

/// Mounts the identity into every container that has nothing else in its place, from a volume that
/// is made for it unless the pod brings one.
fn mount_identity(spec: &mut PodSpec, new_name: impl FnOnce() -> String) {
    let own = items(spec.volumes.as_ref()).iter().find(|v| v.name.starts_with(VOLUME_PREFIX));
    let own = own.map(|volume| volume.name.clone());
    let is_new = own.is_none();
    let name = own.unwrap_or_else(new_name);
    let init = spec.init_containers.iter_mut().flatten();
    let mut mounted = false;
    for container in init.chain(&mut spec.containers) {
        mounted |= mount_in(container, &name);
    }
    if mounted && is_new {
        spec.volumes.get_or_insert_default().push(identity_volume(name));
    }
}

/// Whether the container got the mount.
fn mount_in(container: &mut Container, volume: &str) -> bool {
    let mounts = container.volume_mounts.get_or_insert_default();
    let taken = mounts.iter().any(|mount| mount.mount_path == MOUNT_PATH);
    if !taken {
        mounts.push(VolumeMount {
            name: volume.to_owned(),
            mount_path: MOUNT_PATH.to_owned(),
            read_only: Some(true),
            ..VolumeMount::default()
        });
    }
    !taken
}

/// The token, the CA that the API's certificate is of, and the namespace.
fn identity_volume(name: String) -> Volume {
    let token = VolumeProjection {
        service_account_token: Some(ServiceAccountTokenProjection {
            audience: None,
            expiration_seconds: Some(TOKEN_SECONDS),
            path: "token".to_owned(),
            user: None,
        }),
        ..VolumeProjection::default()
    };
    let ca = "ca.crt".to_owned();
    let bundle = VolumeProjection {
        config_map: Some(ConfigMapProjection {
            name: CA_BUNDLE.to_owned(),
            items: Some(vec![KeyToPath { key: ca.clone(), path: ca, ..KeyToPath::default() }]),
            optional: None,
        }),
        ..VolumeProjection::default()
    };
    let namespace = DownwardAPIVolumeFile {
        path: "namespace".to_owned(),
        field_ref: Some(ObjectFieldSelector {
            api_version: Some("v1".to_owned()),
            field_path: "metadata.namespace".to_owned(),
        }),
        ..DownwardAPIVolumeFile::default()
    };
    let namespace = VolumeProjection {
        downward_api: Some(DownwardAPIProjection { items: Some(vec![namespace]) }),
        ..VolumeProjection::default()
    };
    Volume {
        name,
        projected: Some(ProjectedVolumeSource {
            default_mode: Some(FILE_MODE),
            sources: Some(vec![token, bundle, namespace]),
            ..ProjectedVolumeSource::default()
        }),
        ..Volume::default()
    }
}
