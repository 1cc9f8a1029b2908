//! IPAddress (networking.k8s.io/v1): an address of the Service range that is taken, and by what.
//! `service_addresses` of the API writes them together with their Services.

use k8s_openapi::api::networking::v1::{IPAddress, ParentReference};
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;

use super::service::shown_as_address;
use crate::registry::resource::{ApiKind, ResourceNames, ResourceScope, TableCell, TableColumn};
use crate::table::{NAME, column};
use crate::validation::{Path, invalid_each, names, text};

impl ApiKind for IPAddress {
    const NAMES: ResourceNames = ResourceNames {
        singular: "ipaddress",
        short_names: &["ip"],
        categories: &[],
        scope: ResourceScope::Cluster,
    };
    const COLUMNS: &'static [TableColumn] =
        &[NAME, column("ParentRef", "string", "The object that the address belongs to.")];

    fn validate(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let name = text(self.metadata.name.as_ref());
        let field = Path::new("metadata").child("name");
        errors.extend(shown_as_address(name, &field));
        errors.extend(parent_errors(&self.spec.parent_ref));
        errors
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let is_same = self.spec.parent_ref == old.spec.parent_ref;
        let parent = text(Some(&self.spec.parent_ref.name));
        let field = Path::new("spec").child("parentRef");
        let error = || FieldError::invalid(field, parent, "field is immutable");
        (!is_same).then(error).into_iter().collect()
    }

    fn row(&self, _now: Tick) -> Vec<TableCell> {
        vec![text(self.metadata.name.as_ref()).into(), shown_parent(&self.spec.parent_ref).into()]
    }
}

/// `services/default/web`.
fn shown_parent(parent: &ParentReference) -> String {
    let resource = match text(parent.group.as_ref()) {
        "" => parent.resource.clone(),
        group => format!("{}.{group}", parent.resource),
    };
    let namespace = text(parent.namespace.as_ref());
    let parts = [resource.as_str(), namespace, parent.name.as_str()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

fn parent_errors(parent: &ParentReference) -> Vec<FieldError> {
    let field = Path::new("spec").child("parentRef");
    let mut errors = Vec::new();
    let group = text(parent.group.as_ref());
    if !group.is_empty() {
        errors.extend(invalid_each(&field.child("group"), group, names::dns_subdomain(group)));
    }
    for (name, value) in [("resource", &parent.resource), ("name", &parent.name)] {
        let field = field.child(name);
        if value.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else {
            errors.extend(invalid_each(&field, value, names::path_segment(value)));
        }
    }
    let namespace = text(parent.namespace.as_ref());
    if !namespace.is_empty() {
        let messages = names::path_segment(namespace);
        errors.extend(invalid_each(&field.child("namespace"), namespace, messages));
    }
    errors
}
