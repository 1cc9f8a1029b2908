//! Who names an object without being owned by it: the pods and the volumes of a claim, the
//! EndpointSlices of a Service. Whoever asks for them does not go through all pods, volumes or
//! slices.

use std::collections::BTreeMap;

use rekindle_types::labels::SERVICE_NAME;

use super::objects::{self, Objects, remove_from};
use crate::{NamespacedName, ObjectId, ResourceKind, ViewObject, volumes};

/// Objects by what they name.
#[derive(Clone, Debug, Default)]
pub(super) struct ReferenceIndex(BTreeMap<ObjectId, Objects>);

impl ReferenceIndex {
    pub(super) fn insert(&mut self, id: &ObjectId, object: &ViewObject) {
        for named in named_by(object) {
            self.0.entry(named).or_default().insert(id.clone(), object.clone());
        }
    }

    pub(super) fn remove(&mut self, id: &ObjectId, object: &ViewObject) {
        for named in named_by(object) {
            remove_from(&mut self.0, &named, id);
        }
    }

    /// Those of a kind that name this one.
    pub(super) fn of<'a>(
        &'a self,
        named: &ObjectId,
        kind: ResourceKind,
    ) -> impl Iterator<Item = &'a ViewObject> + use<'a> {
        let all = self.0.get(named).into_iter();
        all.flat_map(move |all| objects::objects_of_kind(all, kind)).map(|(_, object)| object)
    }
}

fn named_by(object: &ViewObject) -> Vec<ObjectId> {
    let namespace = object.meta().namespace.as_deref().unwrap_or_default();
    let claim = |name: NamespacedName| ObjectId::new(ResourceKind::PersistentVolumeClaim, name);
    match object {
        ViewObject::Pod(pod) => volumes::claims_of(pod)
            .map(|used| claim(NamespacedName::new(namespace, used.claim.as_ref())))
            .collect(),
        ViewObject::PersistentVolume(volume) => volumes::claim_ref(volume)
            .map(|of| claim(volumes::claim_name(of)))
            .into_iter()
            .collect(),
        ViewObject::EndpointSlice(slice) => {
            let labels = slice.metadata.labels.as_ref();
            let service = labels.and_then(|labels| labels.get(SERVICE_NAME));
            let service = service.map(|name| NamespacedName::new(namespace, name.as_str()));
            service.map(|name| ObjectId::new(ResourceKind::Service, name)).into_iter().collect()
        }
        // The others name nothing that is asked for from its side.
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PersistentVolume;
    use k8s_openapi::api::discovery::v1::EndpointSlice;
    use rekindle_types::held::HeldPod;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;
    use crate::ClusterView;

    fn read<K: DeserializeOwned + Into<ViewObject>>(mut object: Value, version: u32) -> ViewObject {
        object["metadata"]["uid"] = object["metadata"]["name"].clone();
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        serde_json::from_value::<K>(object).unwrap().into()
    }

    fn pod(claim: &str, version: u32) -> ViewObject {
        let volume = json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}});
        read::<HeldPod>(
            json!({"metadata": {"name": "db-0", "namespace": "shop"},
                "spec": {"containers": [], "volumes": [volume, {"name": "own", "ephemeral": {}}]}}),
            version,
        )
    }

    #[test]
    fn what_is_named_knows_who_names_it_until_they_name_another_or_go() {
        let id = |kind, name: &str| ObjectId::new(kind, NamespacedName::new("shop", name));
        let claim = |name: &str| id(ResourceKind::PersistentVolumeClaim, name);
        let mut view = ClusterView::new();
        view.apply(pod("a", 1));
        view.apply(read::<PersistentVolume>(
            json!({"metadata": {"name": "pv"}, "spec": {"claimRef": {"namespace": "shop", "name": "a"}}}),
            2,
        ));
        view.apply(read::<EndpointSlice>(
            json!({"metadata": {"name": "web-1", "namespace": "shop", "labels": {SERVICE_NAME: "web"}},
                "addressType": "IPv4", "endpoints": []}),
            3,
        ));
        let naming = |view: &ClusterView, named: &ObjectId, kind| {
            view.naming(named, kind).map(|object| object.id().name.name).collect::<Vec<_>>()
        };
        assert_eq!(naming(&view, &claim("a"), ResourceKind::Pod), ["db-0"]);
        assert_eq!(naming(&view, &claim("a"), ResourceKind::PersistentVolume), ["pv"]);
        assert_eq!(naming(&view, &claim("db-0-own"), ResourceKind::Pod), ["db-0"]);
        assert_eq!(
            naming(&view, &id(ResourceKind::Service, "web"), ResourceKind::EndpointSlice),
            ["web-1"]
        );
        assert!(naming(&view, &id(ResourceKind::Service, "web"), ResourceKind::Pod).is_empty());

        view.apply(pod("b", 4));
        assert!(naming(&view, &claim("a"), ResourceKind::Pod).is_empty());
        assert_eq!(naming(&view, &claim("b"), ResourceKind::Pod), ["db-0"]);
        view.delete(&id(ResourceKind::Pod, "db-0"), "db-0");
        assert!(naming(&view, &claim("b"), ResourceKind::Pod).is_empty());
        assert_eq!(naming(&view, &claim("a"), ResourceKind::PersistentVolume), ["pv"]);
    }
}
