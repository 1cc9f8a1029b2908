//! Volumes of the class local-path, as nodes make and remove them for the binder. What a node
//! decides is what it decides in production (`rekindle_types::local_path`); there are no folders.

use std::sync::Arc;

use http::Method;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use rekindle_controllers::events::EventNote;
use rekindle_controllers::{NamespacedName, ObjectId, ResourceKind, ViewObject};
use rekindle_types::labels::HOSTNAME;
use rekindle_types::local_path::{self, VolumeCleanup};
use rekindle_types::{EventSeverity, ObjectJson, TickDuration};
use serde_json::{Value, json};

use super::nodes::UNAVAILABLE;
use super::{MERGE_PATCH, ScheduledEvent, World, collection, path};
use crate::faults::WriteFate;

/// After this a node tries again what failed.
const RETRY: TickDuration = TickDuration::from_secs(5);

/// Where the folders would be.
const FOLDERS: &str = "/var/lib/rekindle/local-path";

/// What a node is to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum VolumeJob {
    /// A volume for this claim.
    Make(NamespacedName),
    /// What comes next at this volume's end.
    Remove(String),
}

impl World {
    /// A claim is there, or there in another version.
    pub(super) fn tell_claim(&mut self, claim: &PersistentVolumeClaim) {
        if self.asked_for(claim).is_some() {
            self.work_on_volume(VolumeJob::Make(NamespacedName::from_meta(&claim.metadata)));
        }
    }

    /// A volume is there, or there in another version.
    pub(super) fn tell_volume(&mut self, volume: &PersistentVolume) {
        if local_path::has_folder(volume)
            && VolumeCleanup::from_volume(volume) != VolumeCleanup::NotYet
        {
            let name = volume.metadata.name.clone().unwrap_or_default();
            self.work_on_volume(VolumeJob::Remove(name));
        }
    }

    /// Nodes look at all claims and volumes anew.
    pub(super) fn resync_volumes(&mut self) {
        for object in self.server.list(ResourceKind::PersistentVolumeClaim) {
            if let ViewObject::PersistentVolumeClaim(claim) = object {
                self.tell_claim(&claim);
            }
        }
        for object in self.server.list(ResourceKind::PersistentVolume) {
            if let ViewObject::PersistentVolume(volume) = object {
                self.tell_volume(&volume);
            }
        }
    }

    pub(super) fn work_on_volume(&mut self, job: VolumeJob) {
        let code = match &job {
            VolumeJob::Make(claim) => self.make_volume(claim),
            VolumeJob::Remove(volume) => self.remove_volume(volume),
        };
        let is_done = code.is_none_or(|code| code < 300);
        if !is_done && self.volumes_due.insert(job.clone()) {
            self.later(RETRY, ScheduledEvent::Volume(job));
        }
    }

    /// The node that is asked for the volume of this claim, if it knows.
    fn asked_for(&self, claim: &PersistentVolumeClaim) -> Option<String> {
        let selected = claim.metadata.annotations.as_ref()?.get(local_path::SELECTED_NODE)?;
        let node = self.nodes.get(selected)?;
        (self.hears(node) && local_path::is_asked_for(claim, node)).then(|| node.clone())
    }

    /// The code of the write, if one was needed.
    fn make_volume(&mut self, name: &NamespacedName) -> Option<u16> {
        let claim = self.claim(name)?;
        let node = self.asked_for(&claim)?;
        let wanted = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
        let class = ObjectId::new(
            ResourceKind::StorageClass,
            NamespacedName::new("", wanted.unwrap_or_default()),
        );
        let class = match self.server.get(&class) {
            Some(ViewObject::StorageClass(class)) => Some(class),
            _ => None,
        };
        let about = ViewObject::PersistentVolumeClaim(claim.clone());
        let volume = match local_path::class_for(&claim, class.as_deref()) {
            Ok(class) => {
                let uid = claim.metadata.uid.as_deref().unwrap_or_default();
                let folder = format!("{FOLDERS}/{}", local_path::volume_name(uid));
                local_path::volume(&claim, class, &node, &folder)
            }
            Err(why) => {
                let reason = "ProvisioningFailed";
                self.say(
                    &node,
                    EventNote::new(&about, EventSeverity::Warning, reason, why, "kubelet"),
                );
                return None;
            }
        };
        let name = volume.metadata.name.clone().unwrap_or_default();
        let volume = volume.to_value();
        let id = volume_id(&name);
        let code = self.write_volume(Method::POST, &collection(&id), "application/json", &volume);
        if code == 409 {
            return None; // made before, and the answer did not come
        }
        if code < 300 {
            self.trace.add(self.now, &format!("{id}: made by {node}"));
            let text = format!("Successfully provisioned volume {name}");
            let reason = "ProvisioningSucceeded";
            self.say(&node, EventNote::new(&about, EventSeverity::Normal, reason, text, "kubelet"));
        }
        Some(code)
    }

    fn remove_volume(&mut self, name: &str) -> Option<u16> {
        let id = volume_id(name);
        let Some(ViewObject::PersistentVolume(volume)) = self.server.get(&id) else { return None };
        if !local_path::has_folder(&volume) || !node_of(&volume).is_some_and(|n| self.hears(n)) {
            return None;
        }
        let meta = &volume.metadata;
        match VolumeCleanup::from_volume(&volume) {
            VolumeCleanup::NotYet => None,
            VolumeCleanup::Delete => {
                let only_this = json!({"uid": meta.uid, "resourceVersion": meta.resource_version});
                let options = json!({"preconditions": only_this});
                Some(self.write_volume(
                    Method::DELETE,
                    &path(&id, ""),
                    "application/json",
                    &options,
                ))
            }
            VolumeCleanup::WithFolder | VolumeCleanup::WithoutFolder => {
                let patch = json!({"metadata": {
                    "uid": meta.uid, "resourceVersion": meta.resource_version,
                    "finalizers": local_path::finalizers_left(&volume),
                }});
                Some(self.write_volume(Method::PATCH, &path(&id, ""), MERGE_PATCH, &patch))
            }
        }
    }

    fn write_volume(&mut self, method: Method, path: &str, kind: &str, body: &Value) -> u16 {
        match self.faults.write_fate() {
            WriteFate::Lost => UNAVAILABLE,
            WriteFate::DoneUnsaid => {
                self.call(method, path, kind, body);
                UNAVAILABLE
            }
            WriteFate::Well | WriteFate::Conflict => self.call(method, path, kind, body).0,
        }
    }

    fn claim(&self, name: &NamespacedName) -> Option<Arc<PersistentVolumeClaim>> {
        let id = ObjectId::new(ResourceKind::PersistentVolumeClaim, name.clone());
        match self.server.get(&id)? {
            ViewObject::PersistentVolumeClaim(claim) => Some(claim),
            _ => None,
        }
    }
}

fn volume_id(name: &str) -> ObjectId {
    ObjectId::new(ResourceKind::PersistentVolume, NamespacedName::new("", name))
}

/// The node that a volume is on.
pub(super) fn node_of(volume: &PersistentVolume) -> Option<&str> {
    let affinity = volume.spec.as_ref()?.node_affinity.as_ref()?;
    let mut terms = affinity.required.as_ref()?.node_selector_terms.iter();
    let mut requirements = terms.next()?.match_expressions.iter().flatten();
    let hostname = requirements.find(|requirement| requirement.key == HOSTNAME)?;
    hostname.values.as_ref()?.first().map(String::as_str)
}
