//! The shape of the workspace: arrows point down, and the pure crates stay pure.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a black-box test drives processes and files"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// For each crate, the crates of this workspace it may use (docs: ARCHITECTURE.md). `cli` may use
/// all.
const ARROWS: [(&str, &[&str]); 16] = [
    ("types", &[]),
    ("store", &[]),
    ("shim", &[]),
    ("demo", &[]),
    ("manifest", &[]),
    ("pod", &["types"]),
    ("pod-driver", &["types", "pod"]),
    ("ladder", &["types"]),
    ("why", &["types"]),
    ("controllers", &["types"]),
    ("net", &["types"]),
    ("api", &["types", "store"]),
    ("runtime", &["types", "shim"]),
    ("operator", &["types", "controllers", "ladder"]),
    ("node", &["types", "pod", "pod-driver", "runtime", "net", "manifest"]),
    ("sim", &["types", "store", "api", "pod", "pod-driver", "ladder", "controllers", "operator"]),
];

/// What would let a clock, a thread, randomness or IO into a pure crate.
const IMPURE: [&str; 12] = [
    "tokio",
    "hyper",
    "axum",
    "kube",
    "reqwest",
    "rustix",
    "libc",
    "nix",
    "rand",
    "getrandom",
    "uuid",
    "tracing",
];
const PURE: [&str; 7] = ["types", "pod", "pod-driver", "ladder", "controllers", "manifest", "why"];

#[test]
fn arrows_point_down_and_pure_crates_use_nothing_impure() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("run cargo metadata");
    let metadata: Value =
        serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let allowed: BTreeMap<_, _> = ARROWS.into_iter().collect();
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        let Some(short) = name.strip_prefix("rekindle-") else { continue };
        let allowed =
            allowed.get(short).unwrap_or_else(|| panic!("{short}: say in ARROWS what it may use"));
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            // dev-dependencies may reach up: a test may drive the real thing
            if dependency["kind"] == "dev" {
                continue;
            }
            let used = dependency["name"].as_str().expect("a name");
            let arrow_up =
                used.strip_prefix("rekindle-").is_some_and(|used| !allowed.contains(&used));
            let impure = PURE.contains(&short) && IMPURE.contains(&used);
            if arrow_up || impure {
                wrong.push(format!("{short} → {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "arrows that may not be: {wrong:?}");
}

/// What the documents say is tested, by file or by the test's name, is there.
#[test]
fn every_test_that_the_documents_name_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let crates = root.join("crates");
    let mut files = Vec::new();
    collect(&crates, &mut files);
    let mut tests = BTreeSet::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|e| e == "rs")) {
        let text = std::fs::read_to_string(file).expect("a source file");
        let functions = text.split("fn ").skip(1).filter_map(|rest| rest.split('(').next());
        tests.extend(functions.map(str::to_owned));
    }
    let files: Vec<String> = files
        .iter()
        .filter_map(|file| Some(file.strip_prefix(&root).ok()?.to_str()?.to_owned()))
        .collect();
    let mut missing = Vec::new();
    for document in ["SPECIFICATION.md", "docs/behaviour.md", "docs/threat-model.md"] {
        let text = std::fs::read_to_string(root.join(document)).expect("a document");
        for name in text.split('`').skip(1).step_by(2) {
            if !names_what_exists(name, &files, &tests) {
                missing.push(format!("{document}: {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// True for a name of a file or a test that is there, and for what is neither.
fn names_what_exists(name: &str, files: &[String], tests: &BTreeSet<String>) -> bool {
    let scenario = format!("crates/pod/testdata/{name}");
    let path = match name {
        _ if name.starts_with("crates/") => name,
        _ if name.ends_with(".txt")
            && !name.contains('/')
            && !name.starts_with(char::is_numeric) =>
        {
            &scenario
        }
        _ => {
            let words = name.split('_').count();
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            return words < 4 || !name.chars().all(plain) || tests.contains(name);
        }
    };
    // `*` for a part of a name; without a name behind it, a folder
    let parts: Vec<&str> = path.split('*').collect();
    files.iter().any(|file| {
        let mut rest = file.as_str();
        parts.iter().enumerate().all(|(place, part)| {
            let found =
                if place == 0 { rest.starts_with(part).then_some(0) } else { rest.find(part) };
            found.map(|at| rest = &rest[at + part.len()..]).is_some()
        })
    })
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}
