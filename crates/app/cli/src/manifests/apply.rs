//! Client-side apply: create what is not there, otherwise patch what changed.
//!
//! The manifest is kept in the annotation that `kubectl apply` uses, so that either can go on where
//! the other stopped. What was in the last applied manifest and is gone from the new one is
//! removed, field by field; in lists the server's strategic merge decides.

use anyhow::{Context, bail};
use kube::api::{Api, DynamicObject, Patch};
use kube::core::GroupVersionKind;
use kube::discovery::Scope;
use kube::{Client, ResourceExt};
use serde_json::{Map, Value, json};

use super::write::{self, PrintedWarnings};
use crate::output;

/// Where kubectl keeps what was applied last.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What one object's apply did, in kubectl's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyResult {
    /// It was not there.
    Created,
    /// Something changed.
    Configured,
    /// Nothing changed.
    Unchanged,
}

/// Applies the objects in order; prints a line each. The first failure ends it and names the
/// object.
pub async fn apply_all(client: &Client, objects: Vec<Value>) -> anyhow::Result<()> {
    let mut warned = PrintedWarnings::default();
    for object in objects {
        let (label, applied) = apply(client, object, &mut warned).await?;
        output::tell(format!(
            "{label} {}",
            match applied {
                ApplyResult::Created => "created",
                ApplyResult::Configured => "configured",
                ApplyResult::Unchanged => "unchanged",
            }
        ));
    }
    Ok(())
}

async fn apply(
    client: &Client,
    manifest: Value,
    warned: &mut PrintedWarnings,
) -> anyhow::Result<(String, ApplyResult)> {
    let object: DynamicObject = serde_json::from_value(manifest.clone())
        .context("a manifest needs apiVersion, kind and metadata")?;
    let types = object.types.clone().context("a manifest needs apiVersion and kind")?;
    let Some(name) = object.metadata.name.clone() else {
        bail!("{}: metadata.name: required value; apply needs a name", types.kind);
    };
    let gvk = GroupVersionKind::try_from(&types)
        .with_context(|| format!("{} {name:?}: apiVersion", types.kind))?;
    let (resource, capabilities) =
        kube::discovery::pinned_kind(client, &gvk).await.with_context(|| {
            format!(
                "{} {name:?}: no kind {:?} in version {:?} is served here",
                types.kind, types.kind, types.api_version
            )
        })?;
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => {
            let namespace = object.namespace().unwrap_or_else(|| "default".to_owned());
            Api::namespaced_with(client.clone(), &namespace, &resource)
        }
    };
    let label = if gvk.group.is_empty() {
        format!("{}/{name}", types.kind.to_lowercase())
    } else {
        format!("{}.{}/{name}", types.kind.to_lowercase(), gvk.group)
    };
    let applied = create_or_patch(&api, &name, &gvk, manifest, warned)
        .await
        .with_context(|| format!("apply {label}"))?;
    Ok((label, applied))
}

async fn create_or_patch(
    api: &Api<DynamicObject>,
    name: &str,
    gvk: &GroupVersionKind,
    manifest: Value,
    warned: &mut PrintedWarnings,
) -> anyhow::Result<ApplyResult> {
    let annotated = with_last_applied(manifest.clone());
    let Some(current) = api.get_opt(name).await? else {
        write::create(api, &annotated, warned).await?;
        return Ok(ApplyResult::Created);
    };
    let last: Value = current
        .annotations()
        .get(LAST_APPLIED)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or(Value::Null);
    let patch = with_removals(&last, &manifest, annotated);
    // Kinds that are not Kubernetes' own have no merge keys: their lists are replaced, as kubectl
    // does.
    let patch = if gvk.group == rekindle_types::v1alpha1::GROUP {
        Patch::Merge(&patch)
    } else {
        Patch::Strategic(&patch)
    };
    let patched = write::patch(api, name, &patch, warned).await?;
    Ok(if patched.resource_version() == current.resource_version() {
        ApplyResult::Unchanged
    } else {
        ApplyResult::Configured
    })
}

/// The manifest with itself in the annotation.
fn with_last_applied(mut manifest: Value) -> Value {
    let text = format!("{manifest}\n");
    if let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) {
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(LAST_APPLIED.to_owned(), Value::String(text));
        }
    }
    manifest
}

/// `patch`, and null for every field that was in `last` and is gone from `new`.
fn with_removals(last: &Value, new: &Value, mut patch: Value) -> Value {
    if let (Value::Object(last), Value::Object(new), Value::Object(patch)) = (last, new, &mut patch)
    {
        mark_removed(last, new, patch);
    }
    patch
}

fn mark_removed(
    last: &Map<String, Value>,
    new: &Map<String, Value>,
    patch: &mut Map<String, Value>,
) {
    for (field, last_value) in last {
        match (last_value, new.get(field), patch.get_mut(field)) {
            (_, None, _) => {
                patch.insert(field.clone(), Value::Null);
            }
            (Value::Object(last), Some(Value::Object(new)), Some(Value::Object(patch))) => {
                mark_removed(last, new, patch);
            }
            (_, Some(_), _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_from_the_manifest_is_removed_field_by_field() {
        let last = json!({"spec": {"replicas": 3, "paused": true, "template": {"a": 1, "b": 2}}});
        let new = json!({"spec": {"replicas": 2, "template": {"b": 2}}});
        assert_eq!(
            with_removals(&last, &new, new.clone()),
            json!({"spec": {"replicas": 2, "paused": null, "template": {"a": null, "b": 2}}})
        );
    }

    #[test]
    fn the_annotation_is_the_one_kubectl_reads() {
        let annotated = with_last_applied(json!({"kind": "ConfigMap", "metadata": {"name": "a"}}));
        let text = annotated["metadata"]["annotations"][LAST_APPLIED].as_str().unwrap();
        let kept: Value = serde_json::from_str(text).unwrap();
        assert_eq!(kept, json!({"kind": "ConfigMap", "metadata": {"name": "a"}}));
    }
}
