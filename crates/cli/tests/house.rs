//! The shape of the workspace: arrows point down, and the pure crates stay pure.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a black-box test drives processes and files"
)]

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

/// For each crate, the crates of this workspace it may use (docs: ARCHITECTURE.md). `cli` may use all.
const ARROWS: [(&str, &[&str]); 15] = [
    ("types", &[]),
    ("store", &[]),
    ("shim", &[]),
    ("demo", &[]),
    ("manifest", &[]),
    ("pod", &["types"]),
    ("ladder", &["types"]),
    ("why", &["types"]),
    ("controllers", &["types"]),
    ("net", &["types"]),
    ("api", &["types", "store"]),
    ("runtime", &["types", "shim"]),
    ("operator", &["types", "controllers", "ladder"]),
    ("node", &["types", "pod", "runtime", "net", "manifest"]),
    ("sim", &["types", "store", "api", "pod", "ladder", "controllers", "operator"]),
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
const PURE: [&str; 6] = ["types", "pod", "ladder", "controllers", "manifest", "why"];

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
