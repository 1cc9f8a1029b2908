//! From what the store holds to what controllers and nodes read.

use std::collections::BTreeMap;

use rekindle_controllers::{Kind, Object, ObjectId};
use rekindle_operator::{kinds, object_from_json};
use rekindle_store::Object as Stored;

use crate::server::Server;

/// The kinds that are watched, by the first segment of their keys.
#[derive(Debug)]
pub(crate) struct Kinds {
    by_segment: BTreeMap<String, Kind>,
}

impl Kinds {
    pub(crate) fn new() -> Self {
        let segment = |kind: Kind| {
            let info = kind.info();
            match info.group {
                "" => info.plural.to_owned(),
                group => format!("{}.{group}", info.plural),
            }
        };
        Self { by_segment: kinds().map(|kind| (segment(kind), kind)).collect() }
    }

    /// Where the store keeps an object; none when its kind is not watched.
    pub(crate) fn key(&self, id: &ObjectId) -> Option<String> {
        let (segment, _) = self.by_segment.iter().find(|(_, kind)| **kind == id.kind)?;
        Some(match id.name.namespace.as_str() {
            "" => format!("/{segment}/{}", id.name.name),
            namespace => format!("/{segment}/{namespace}/{}", id.name.name),
        })
    }

    /// All objects of a kind.
    pub(crate) fn list(&self, server: &Server, kind: Kind) -> Vec<Object> {
        let found = self.by_segment.iter().find(|(_, of)| **of == kind);
        found.map_or_else(Vec::new, |(segment, _)| server.all(&format!("/{segment}/"), kind))
    }

    /// The object, with the resourceVersion that it was stored with; none when its kind is not watched.
    pub(crate) fn read(&self, stored: &Stored) -> Option<Object> {
        let segment = stored.key.as_str().split('/').nth(1)?;
        let kind = *self.by_segment.get(segment)?;
        object_from_json(kind, &stored.value).ok()
    }
}
