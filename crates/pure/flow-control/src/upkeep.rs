//! Keeps the objects that every server has, without undoing what their owners have changed.
//!
//! Source: the documentation "API Priority and Fairness", "Maintenance of the Mandatory and
//! Suggested Configuration Objects".

use std::fmt::Debug;

use k8s_openapi::Metadata;
use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::defaults;

/// Whether the server keeps the spec of an object as it wants it: `"true"` or `"false"`.
pub const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

/// A kind of which the server has objects of its own.
pub trait MaintainedObject: Metadata<Ty = ObjectMeta> + Clone + PartialEq + Debug {
    /// The mandatory ones.
    fn mandatory() -> Vec<Self>;
    /// The suggested ones.
    fn suggested() -> Vec<Self>;
    /// Gives a mandatory object the spec that it has to have.
    fn fix(&mut self, fixed: &Self);
    /// Takes over the spec of another object.
    fn take_spec(&mut self, wanted: &Self);
}

impl MaintainedObject for FlowSchema {
    fn mandatory() -> Vec<Self> {
        defaults::mandatory_schemas()
    }

    fn suggested() -> Vec<Self> {
        defaults::suggested_schemas()
    }

    fn fix(&mut self, fixed: &Self) {
        defaults::fix_schema(self, fixed);
    }

    fn take_spec(&mut self, wanted: &Self) {
        self.spec.clone_from(&wanted.spec);
    }
}

impl MaintainedObject for PriorityLevelConfiguration {
    fn mandatory() -> Vec<Self> {
        defaults::mandatory_levels()
    }

    fn suggested() -> Vec<Self> {
        defaults::suggested_levels()
    }

    fn fix(&mut self, fixed: &Self) {
        defaults::fix_level(self, fixed);
    }

    fn take_spec(&mut self, wanted: &Self) {
        self.spec.clone_from(&wanted.spec);
    }
}

/// What has to be written.
#[derive(Clone, Debug, PartialEq)]
pub enum ObjectUpkeep<K> {
    /// The object is not there.
    Create(K),
    /// The object should look like this.
    Update(K),
}

/// What has to be written so that the server's own objects are as they should be. `found` has the
/// stored objects.
pub fn maintain<K: MaintainedObject>(found: &[K]) -> Vec<ObjectUpkeep<K>> {
    let stored =
        |wanted: &K| found.iter().find(|object| object.metadata().name == wanted.metadata().name);
    let mandatory = K::mandatory().into_iter().filter_map(|wanted| match stored(&wanted) {
        None => Some(ObjectUpkeep::Create(wanted)),
        Some(old) => changed(old, |object| {
            if keeps_spec(old) {
                object.take_spec(&wanted);
            }
            object.fix(&wanted);
            let keeps = keeps_spec(old);
            mark(object, keeps);
        }),
    });
    let suggested = K::suggested().into_iter().filter_map(|wanted| match stored(&wanted) {
        None => Some(ObjectUpkeep::Create(wanted)),
        Some(old) => changed(old, |object| {
            let keeps = keeps_spec(old);
            if keeps {
                object.take_spec(&wanted);
            }
            mark(object, keeps);
        }),
    });
    mandatory.chain(suggested).collect()
}

fn changed<K: MaintainedObject>(old: &K, change: impl FnOnce(&mut K)) -> Option<ObjectUpkeep<K>> {
    let mut object = old.clone();
    change(&mut object);
    let mut with_spec = old.clone();
    with_spec.take_spec(&object);
    if with_spec != *old {
        let generation = &mut object.metadata_mut().generation;
        *generation = Some(generation.unwrap_or(0) + 1);
    }
    (object != *old).then_some(ObjectUpkeep::Update(object))
}

/// Whether the server keeps the spec. Without a word from its owner it does as long as nothing has
/// changed the spec.
fn keeps_spec<K: MaintainedObject>(object: &K) -> bool {
    let meta = object.metadata();
    let says = meta.annotations.as_ref().and_then(|all| all.get(AUTO_UPDATE)).map(String::as_str);
    match says {
        Some("true") => true,
        Some("false") => false,
        Some(_) | None => meta.generation == Some(1),
    }
}

fn mark<K: MaintainedObject>(object: &mut K, keeps_spec: bool) {
    let annotations = object.metadata_mut().annotations.get_or_insert_default();
    annotations.insert(AUTO_UPDATE.to_owned(), keeps_spec.to_string());
}
