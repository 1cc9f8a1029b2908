//! What becomes of manifests: `testdata/create/*.yaml` go through defaulting, validation and the
//! preparation of a create; `testdata/update/*.yaml` hold the old and the new object, as do
//! `testdata/ephemeral/*.yaml` for that subresource; `testdata/tables/*.yaml` the objects of one
//! table. Beside each stands what comes out, in a file that `UPDATE_EXPECT=1 cargo test` rewrites.
#![allow(clippy::disallowed_methods, reason = "tests read their data from files")]

mod fuzz;
mod work;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use expect_test::expect_file;
use rekindle_types::Tick;
use rekindle_types::validation::field_error::FieldError;
use serde_json::Value;

use crate::identity::ClientIdentity;
use crate::registry::{AnyObject, KindEntry, ObjectPart, Registry, RequestContext, TableCell};

/// The time at which everything happens here: 2026-11-21T12:00:00Z.
const NOW: Tick = Tick::from_secs(1_795_262_400);

const CONTEXT: RequestContext<'_> =
    RequestContext { now: NOW, identity: &ClientIdentity::Anonymous };

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/testdata").join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

fn documents(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn decode<'a>(registry: &'a Registry, value: &Value) -> (&'a KindEntry, Box<dyn AnyObject>) {
    let api_version = value["apiVersion"].as_str().unwrap();
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let entry = registry.find_kind(group, value["kind"].as_str().unwrap()).unwrap();
    let decoded = entry.codec.decode(value).unwrap();
    assert_eq!(decoded.unknown_fields, [""; 0]);
    (entry, decoded.object)
}

fn section(text: &mut String, title: &str, lines: impl IntoIterator<Item = String>) {
    let mut lines = lines.into_iter().peekable();
    if lines.peek().is_some() {
        writeln!(text, "{title}:").unwrap();
    }
    for line in lines {
        writeln!(text, "  {}", line.replace('\n', "\n  ")).unwrap();
    }
}

fn texts(errors: Vec<FieldError>) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn created_objects_come_out_as_on_kubernetes() {
    let registry = super::all();
    for file in files("create") {
        let mut outcome = String::new();
        for value in documents(&file) {
            let (_, mut object) = decode(&registry, &value);
            object.set_defaults();
            let defaulted = object.to_value();
            object.set_defaults();
            assert_eq!(object.to_value(), defaulted, "defaulting twice: {}", file.display());
            object.prepare_for_create(&CONTEXT);
            object.prepare_named();
            let errors = object.validate_created();
            let valid = errors.is_empty();
            section(&mut outcome, "errors", texts(errors));
            section(&mut outcome, "warnings", object.warnings());
            if valid {
                let json = serde_json::to_string_pretty(&object.to_value()).unwrap();
                section(&mut outcome, "object", [json]);
            }
        }
        expect_file![file.with_extension("txt")].assert_eq(&outcome);
    }
}

#[test]
fn updates_change_what_may_change() {
    let registry = super::all();
    for file in files("update") {
        let [old, new] = documents(&file).try_into().expect("an old and a new object");
        let (_, mut old) = decode(&registry, &old);
        old.set_defaults();
        old.prepare_for_create(&CONTEXT);
        old.prepare_named();
        let (_, mut new) = decode(&registry, &new);
        new.set_defaults();
        new.prepare_update(ObjectPart::Main, old.as_ref(), &CONTEXT);
        let mut outcome = String::new();
        section(&mut outcome, "errors", texts(new.validate_change(ObjectPart::Main, old.as_ref())));
        let generation = new.meta().generation.map(|generation| generation.to_string());
        section(&mut outcome, "generation", generation);
        expect_file![file.with_extension("txt")].assert_eq(&outcome);
    }
}

#[test]
fn ephemeral_containers_are_added_and_nothing_else() {
    let registry = super::all();
    for file in files("ephemeral") {
        let [old, new] = documents(&file).try_into().expect("an old and a new object");
        let (_, mut old) = decode(&registry, &old);
        old.set_defaults();
        old.prepare_for_create(&CONTEXT);
        let (_, mut new) = decode(&registry, &new);
        new.set_defaults();
        new.prepare_update(ObjectPart::EphemeralContainers, old.as_ref(), &CONTEXT);
        let mut outcome = String::new();
        let mut errors = new.validate();
        errors.extend(new.validate_change(ObjectPart::EphemeralContainers, old.as_ref()));
        let valid = errors.is_empty();
        section(&mut outcome, "errors", texts(errors));
        if valid {
            let spec = new.to_value()["spec"].clone();
            let containers = serde_json::to_string_pretty(&spec["ephemeralContainers"]).unwrap();
            section(&mut outcome, "ephemeralContainers", [containers]);
            let images = spec["containers"].as_array().unwrap().iter();
            section(&mut outcome, "images", { images }.map(|c| c["image"].to_string()));
            section(&mut outcome, "generation", new.meta().generation.map(|g| g.to_string()));
            section(&mut outcome, "labels", [format!("{:?}", new.meta().labels)]);
            // What it has now is no matter to an update of the rest.
            let mut later = new.boxed_clone();
            later.meta_mut().labels = Some([("a".to_owned(), "b".to_owned())].into());
            later.prepare_update(ObjectPart::Main, new.as_ref(), &CONTEXT);
            assert_eq!(texts(later.validate()), [""; 0]);
            assert_eq!(texts(later.validate_change(ObjectPart::Main, new.as_ref())), [""; 0]);
        }
        expect_file![file.with_extension("txt")].assert_eq(&outcome);
    }
}

#[test]
fn tables_read_as_kubectl_users_know_them() {
    let registry = super::all();
    for file in files("tables") {
        let mut rows: Vec<Vec<String>> = Vec::new();
        for value in documents(&file) {
            let (entry, object) = decode(&registry, &value);
            if rows.is_empty() {
                let heading = |column: &crate::registry::TableColumn| column.name.to_uppercase();
                rows.push(entry.columns.iter().map(heading).collect());
            }
            let row = object.row(NOW);
            assert_eq!(row.len(), entry.columns.len(), "{}", file.display());
            let shown = |cell: TableCell| match cell {
                TableCell::Text(text) => text,
                TableCell::Int(number) => number.to_string(),
                TableCell::Json(value) => value.to_string(),
            };
            rows.push(row.into_iter().map(shown).collect());
        }
        expect_file![file.with_extension("txt")].assert_eq(&aligned(&rows));
    }
}

fn aligned(rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        writeln!(text, "{}", cells.join("   ").trim_end()).unwrap();
    }
    text
}

#[test]
fn every_kind_gives_the_fields_it_says_it_can_select() {
    let registry = super::all();
    for entry in registry.kinds() {
        let value = serde_json::json!({
            "apiVersion": entry.api_version, "kind": entry.kind, "metadata": {"name": "x"},
        });
        // Kinds with required fields are left out here; their own tables test them.
        let Ok(decoded) = entry.codec.decode(&value) else { continue };
        let names: Vec<_> =
            decoded.object.selectable_fields().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, entry.selectable_fields, "{entry:?}");
    }
}
