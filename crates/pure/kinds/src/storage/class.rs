//! StorageClass (storage.k8s.io/v1).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::TopologySelectorTerm;
use k8s_openapi::api::storage::v1::StorageClass;
use rekindle_types::validation::field_error::FieldError;
use rekindle_types::{Tick, local_path};

use super::not_done_here;
use crate::registry::resource::{
    ApiKind, RequestContext, ResourceNames, ResourceScope, TableCell, TableColumn,
};
use crate::table::{AGE, NAME, age, column};
use crate::validation::{ListKeys, MISTAKES_MAX, Path, fixed, invalid_each, items, names, text};

/// Marks the class of claims that name none.
pub const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

/// Marks the class that the engine has made, until its users make another of it.
pub const IS_BUILT_IN: &str = "rekindle.dev/built-in";

impl ApiKind for StorageClass {
    const NAMES: ResourceNames = ResourceNames {
        singular: "storageclass",
        short_names: &["sc"],
        categories: &[],
        scope: ResourceScope::Cluster,
    };
    const COLUMNS: &'static [TableColumn] = &[
        NAME,
        column("Provisioner", "string", "Who makes volumes of this class."),
        column("ReclaimPolicy", "string", "What becomes of a volume when its claim is gone."),
        column("VolumeBindingMode", "string", "When a volume is made and bound."),
        column("AllowVolumeExpansion", "string", "Whether volumes can grow."),
        AGE,
    ];

    fn set_defaults(&mut self) {
        self.reclaim_policy.get_or_insert_with(|| "Delete".to_owned());
        self.volume_binding_mode.get_or_insert_with(|| "Immediate".to_owned());
    }

    fn prepare_for_update(&mut self, old: &Self, _ctx: &RequestContext<'_>) {
        // kubectl keeps the mark when it applies a class of the same name over ours
        if !fixed_fields(self, old).into_iter().all(|(_, is_same)| is_same)
            && let Some(annotations) = &mut self.metadata.annotations
        {
            annotations.remove(IS_BUILT_IN);
        }
    }

    fn validate(&self) -> Vec<FieldError> {
        let mut errors = driver_name_errors(&self.provisioner, &Path::new("provisioner"));
        errors.extend(parameter_errors(self.parameters.as_ref()));
        match text(self.reclaim_policy.as_ref()) {
            "" | "Delete" | "Retain" => {}
            other => errors.push(FieldError::not_supported(
                "reclaimPolicy",
                other,
                &["Delete", "Retain"],
            )),
        }
        match text(self.volume_binding_mode.as_ref()) {
            "Immediate" | "WaitForFirstConsumer" => {}
            other => errors.push(FieldError::not_supported(
                "volumeBindingMode",
                other,
                &["Immediate", "WaitForFirstConsumer"],
            )),
        }
        errors.extend(topology_errors(items(self.allowed_topologies.as_ref())));
        errors
    }

    fn warnings(&self) -> Vec<String> {
        let has_topologies = !items(self.allowed_topologies.as_ref()).is_empty();
        let is_ours = self.provisioner == local_path::PROVISIONER;
        let why = "no volume of this class is made, as each would be on the node of its pod";
        let warning = || not_done_here(&Path::new("allowedTopologies"), why);
        (has_topologies && is_ours).then(warning).into_iter().collect()
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        // ours gives way to a class of the user's own with its name
        if is_built_in(old) {
            return Vec::new();
        }
        let changed = fixed_fields(self, old).into_iter().filter(|(_, is_same)| !is_same);
        let field = |name| Path::new(name);
        changed
            .map(|(name, _)| match name {
                "parameters" => fixed(&field(name), &self.parameters),
                "provisioner" => fixed(&field(name), &self.provisioner),
                "reclaimPolicy" => fixed(&field(name), &self.reclaim_policy),
                name => fixed(&field(name), &self.volume_binding_mode),
            })
            .collect()
    }

    fn row(&self, now: Tick) -> Vec<TableCell> {
        let name = text(self.metadata.name.as_ref());
        let mark = if is_default(self) { " (default)" } else { "" };
        vec![
            format!("{name}{mark}").into(),
            self.provisioner.as_str().into(),
            text(self.reclaim_policy.as_ref()).into(),
            text(self.volume_binding_mode.as_ref()).into(),
            self.allow_volume_expansion.unwrap_or(false).to_string().into(),
            age(self.metadata.creation_timestamp.as_ref(), now).into(),
        ]
    }
}

/// What is wrong with the name of who makes the volumes of a class.
pub(super) fn driver_name_errors(name: &str, field: &Path) -> Vec<FieldError> {
    if name.is_empty() {
        return vec![FieldError::required(field, "")];
    }
    let name = name.to_lowercase();
    invalid_each(field, &name, names::qualified(&name)).collect()
}

/// What is wrong with the parameters of a class.
pub(super) fn parameter_errors(
    parameters: Option<&BTreeMap<String, String>>,
) -> Option<FieldError> {
    let has_empty_key = parameters.is_some_and(|all| all.contains_key(""));
    has_empty_key.then(|| FieldError::invalid("parameters", "", "field can not be empty."))
}

fn topology_errors(terms: &[TopologySelectorTerm]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut known: BTreeMap<_, usize> = BTreeMap::new();
    for (index, term) in terms.iter().enumerate() {
        let field = Path::new("allowedTopologies").index(index).child("matchLabelExpressions");
        let mut keys: ListKeys<&str> = ListKeys::new();
        for (index, wanted) in items(term.match_label_expressions.as_ref()).iter().enumerate() {
            let field = field.index(index);
            if wanted.values.is_empty() {
                errors.push(FieldError::required(field.child("values"), ""));
            }
            let mut values: ListKeys<&str> = ListKeys::new();
            for (index, value) in wanted.values.iter().enumerate() {
                if values.add(value).is_some() {
                    let field = field.child("values").index(index);
                    errors.push(FieldError::duplicate(field, value));
                }
            }
            let key = field.child("key");
            errors.extend(invalid_each(&key, &wanted.key, names::qualified(&wanted.key)));
            if keys.add(&wanted.key).is_some() {
                errors.push(FieldError::duplicate(key, &wanted.key));
            }
        }
        let all = items(term.match_label_expressions.as_ref()).iter();
        let all: BTreeMap<&String, BTreeSet<&String>> =
            all.map(|wanted| (&wanted.key, wanted.values.iter().collect())).collect();
        // Upstream names a term once for each term before it that is the same, and compares it with
        // as many empty ones as there are terms.
        let again = if all.is_empty() { terms.len() } else { 0 };
        let before = known.entry(all).or_insert(0);
        let again = (again + *before).min(MISTAKES_MAX.saturating_sub(errors.len()));
        *before += 1;
        errors.extend((0..again).map(|_| FieldError::duplicate(&field, "")));
    }
    errors
}

/// The fields that do not change, and whether they are the same in both.
fn fixed_fields(new: &StorageClass, old: &StorageClass) -> [(&'static str, bool); 4] {
    [
        ("parameters", new.parameters == old.parameters),
        ("provisioner", new.provisioner == old.provisioner),
        ("reclaimPolicy", new.reclaim_policy == old.reclaim_policy),
        ("volumeBindingMode", new.volume_binding_mode == old.volume_binding_mode),
    ]
}

/// Whether it is the class that the engine made, unchanged in its fixed fields.
fn is_built_in(class: &StorageClass) -> bool {
    let annotations = class.metadata.annotations.as_ref();
    class.provisioner == local_path::PROVISIONER
        && annotations.is_some_and(|all| all.get(IS_BUILT_IN).is_some_and(|value| value == "true"))
}

/// Whether claims that name no class belong to this one.
pub fn is_default(class: &StorageClass) -> bool {
    let annotations = class.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(IS_DEFAULT)).is_some_and(|value| value == "true")
}
