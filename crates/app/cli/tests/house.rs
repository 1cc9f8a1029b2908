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
const ARROWS: [(&str, &[&str]); 36] = [
    ("types", &[]),
    ("audit", &["types"]),
    ("cron", &["types"]),
    ("flow-control", &["types"]),
    ("metrics", &["types"]),
    ("quota", &["types"]),
    ("store", &[]),
    ("structured-merge", &[]),
    ("structural-schema", &["types"]),
    ("encryption", &["store"]),
    ("redb-disk", &["store"]),
    ("shim", &[]),
    ("demo", &[]),
    ("manifest", &[]),
    ("pod", &["types"]),
    ("pod-driver", &["types", "pod"]),
    ("cri-restart", &["types", "pod-driver"]),
    ("diagnosis", &["types"]),
    ("ladder", &["types", "diagnosis"]),
    ("why", &["types", "diagnosis"]),
    ("controllers", &["types", "cron", "quota"]),
    ("services", &["types"]),
    ("network-policy", &["types", "services"]),
    ("net", &["types", "services", "network-policy"]),
    ("kinds", &["types", "cron", "flow-control", "quota", "structural-schema", "structured-merge"]),
    (
        "api",
        &[
            "types",
            "flow-control",
            "metrics",
            "quota",
            "store",
            "structural-schema",
            "structured-merge",
            "kinds",
        ],
    ),
    ("api-server", &["types", "audit", "flow-control", "metrics", "store", "kinds", "api"]),
    ("object-watch", &["types"]),
    ("runtime", &["types", "shim"]),
    ("reconcile", &["types", "metrics", "controllers", "ladder"]),
    ("operator", &["types", "metrics", "controllers", "object-watch", "reconcile"]),
    (
        "node",
        &[
            "types",
            "metrics",
            "pod",
            "pod-driver",
            "services",
            "network-policy",
            "runtime",
            "net",
            "manifest",
            "object-watch",
        ],
    ),
    ("agent", &["types", "metrics", "pod-driver", "cri-restart", "object-watch", "node"]),
    (
        "sim",
        &[
            "types",
            "store",
            "kinds",
            "api",
            "pod",
            "pod-driver",
            "ladder",
            "controllers",
            "reconcile",
        ],
    ),
    ("fuzz", &["types", "store", "kinds", "api", "manifest", "audit", "encryption"]),
    ("testkit", &[]),
];

/// What tests share: no crate may have it but for its tests.
const TESTKIT: &str = "rekindle-testkit";

/// All that a pure crate may use beside those: types, formats and macros. What is not here needs a
/// look whether it does IO before it is added.
const PURE_LIBRARIES: [&str; 25] = [
    "aes-gcm",
    "base64",
    "bytes",
    "cbc",
    "cel",
    "crypto_secretbox",
    "der",
    "futures-core",
    "http",
    "jiff",
    "json-patch",
    "jsonpath-rust",
    "k8s-openapi",
    "pem",
    "percent-encoding",
    "regex",
    "schemars",
    "serde",
    "serde-saphyr",
    "serde-transcode",
    "serde_json",
    "serde_path_to_error",
    "sha2",
    "thiserror",
    "x509-cert",
];

/// What a pure crate does not link, through no dependency of its dependencies either.
const NEVER_LINKED: [&str; 10] =
    ["tokio", "mio", "socket2", "hyper", "tower", "rustls", "ring", "rcgen", "kube", "redb"];

#[test]
fn arrows_point_down_and_pure_crates_use_nothing_impure() {
    let metadata = metadata(&["--no-deps"]);
    let rooms = rooms(&metadata);
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
            let ours = used.strip_prefix("rekindle-");
            let arrow_up = ours.is_some_and(|used| !allowed.contains(&used));
            let may_be_used = match (rooms[name], rooms.get(used)) {
                (Room::Pure, Some(room)) => *room == Room::Pure,
                (Room::Pure, None) => PURE_LIBRARIES.contains(&used),
                (Room::Io, Some(room)) => *room != Room::App,
                (Room::Io, None) | (Room::App, _) => true,
            };
            if arrow_up || !may_be_used {
                wrong.push(format!("{short} → {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "arrows that may not be: {wrong:?}");
}

#[test]
fn the_testkit_is_for_tests_alone() {
    let metadata = metadata(&["--no-deps"]);
    let packages = metadata["packages"].as_array().expect("packages");
    let users: Vec<(&str, &Value)> = packages
        .iter()
        .flat_map(|package| {
            let dependencies = package["dependencies"].as_array().expect("dependencies");
            let uses = dependencies.iter().filter(|dependency| dependency["name"] == TESTKIT);
            uses.map(|dependency| (text(&package["name"]), &dependency["kind"]))
        })
        .collect();
    assert!(users.iter().any(|(user, _)| *user == "rekindle"), "{users:?}");
    assert!(users.iter().all(|(_, kind)| *kind == "dev"), "{users:?}");
}

#[test]
fn a_pure_crate_links_no_runtime_no_network_and_no_keys() {
    let metadata = metadata(&[]);
    let packages = metadata["packages"].as_array().expect("packages");
    let names: BTreeMap<&str, &str> =
        packages.iter().map(|package| (text(&package["id"]), text(&package["name"]))).collect();
    let nodes = metadata["resolve"]["nodes"].as_array().expect("nodes");
    let linked: BTreeMap<&str, Vec<&str>> =
        nodes.iter().map(|node| (text(&node["id"]), linked_by(node))).collect();
    let mut wrong = Vec::new();
    let rooms = rooms(&metadata);
    for (pure, _) in rooms.iter().filter(|(_, room)| **room == Room::Pure) {
        let (root, _) =
            names.iter().find(|(_, name)| *name == pure).expect("the pure crate is there");
        let (mut seen, mut open) = (BTreeSet::new(), vec![*root]);
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            if NEVER_LINKED.contains(&names[id]) {
                wrong.push(format!("{pure} → … → {}", names[id]));
            }
            open.extend(&linked[id]);
        }
        assert!(seen.len() > 1, "{pure} links something");
    }
    assert!(wrong.is_empty(), "what pure crates may not link: {wrong:?}");
}

#[derive(Clone, Copy, PartialEq)]
enum Room {
    Pure,
    Io,
    App,
}

/// The room of each of our packages: the folder that it lies in.
fn rooms(metadata: &Value) -> BTreeMap<&str, Room> {
    let packages = metadata["packages"].as_array().expect("packages");
    let room = |package: &Value| {
        text(&package["name"]).strip_prefix("rekindle")?;
        let (_, folder) = text(&package["manifest_path"]).split_once("/crates/")?;
        match folder.split('/').next()? {
            "pure" => Some(Room::Pure),
            "io" => Some(Room::Io),
            "app" => Some(Room::App),
            _ => None,
        }
    };
    packages.iter().filter_map(|package| Some((text(&package["name"]), room(package)?))).collect()
}

/// The packages that a package links: its dependencies that are neither for tests nor for builds.
fn linked_by(node: &Value) -> Vec<&str> {
    let is_linked = |dependency: &&Value| {
        let kinds = dependency["dep_kinds"].as_array().expect("kinds");
        kinds.iter().any(|kind| kind["kind"].is_null())
    };
    let dependencies = node["deps"].as_array().expect("dependencies");
    dependencies.iter().filter(is_linked).map(|dependency| text(&dependency["pkg"])).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn metadata(options: &[&str]) -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline"])
        .args(options)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("run cargo metadata");
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

/// What the documents say is tested, by file or by the test's name, is there.
/// Cargo drops `strip` of a profile for each package that the profile has settings of its own for.
#[test]
fn the_binarys_package_has_no_settings_that_keep_it_from_being_stripped() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../Cargo.toml");
    let text = std::fs::read_to_string(manifest).expect("the workspace's Cargo.toml");
    let profile = text.split("[profile.release.package]").nth(1).expect("settings by package");
    let packages: Vec<&str> = profile.lines().take_while(|line| !line.starts_with('[')).collect();
    assert!(!packages.iter().any(|line| line.starts_with("rekindle.")), "{packages:?}");
}

#[test]
fn every_test_that_the_documents_name_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
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

/// A page that the book's summary leaves out is in no book; GitHub shows the others, too.
#[test]
fn links_lead_to_pages_and_every_page_is_in_the_book() {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().expect("a root");
    let docs = root.join("docs");
    let (mut pages, mut wrong) = (Vec::new(), Vec::new());
    collect(&docs, &mut pages);
    let beside = ["README.md", "ARCHITECTURE.md", "SPECIFICATION.md", "SECURITY.md", "GLOSSARY.md"];
    pages.extend(beside.map(|name| root.join(name)));
    let summary = docs.join("SUMMARY.md");
    let listed: BTreeSet<PathBuf> =
        linked_files(&summary).into_iter().map(|link| docs.join(link)).collect();
    for page in &pages {
        let folder = page.parent().expect("a folder");
        let is_of_book = page.starts_with(&docs);
        for link in linked_files(page) {
            match folder.join(&link).canonicalize() {
                Err(_) => wrong.push(format!("{}: no file {link}", page.display())),
                Ok(file) if is_of_book && !file.starts_with(&docs) => {
                    wrong.push(format!("{}: {link} is not in the book", page.display()));
                }
                Ok(_) => {}
            }
        }
        if is_of_book && *page != summary && !listed.contains(page) {
            wrong.push(format!("{}: not in docs/SUMMARY.md", page.display()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What a page's links lead to, without those to other sites and within the page.
fn linked_files(page: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(page).expect("a page");
    let prose = text.split("```").step_by(2);
    let links = prose.flat_map(|part| part.split("](").skip(1));
    links
        .filter_map(|rest| rest.split([')', '#']).next())
        .filter(|link| !link.is_empty() && !link.contains("://"))
        .map(str::to_owned)
        .collect()
}

/// nextest runs no documentation tests, so that there may be none (docs/adr/0055).
#[test]
fn no_documentation_comment_holds_code_that_would_have_to_run() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    collect(&crates, &mut files);
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|e| e == "rs")) {
        let text = std::fs::read_to_string(file).expect("a source file");
        let (mut in_block, mut before) = (false, "");
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim_start();
            let comment = line.strip_prefix("///").or(line.strip_prefix("//!"));
            let comment = comment.unwrap_or_default();
            if let Some(language) = comment.trim_start().strip_prefix("```") {
                if !in_block && !["text", "yaml"].contains(&language) {
                    wrong.push(format!("{}:{number}: ```{language}", file.display()));
                }
                in_block = !in_block;
            } else if !in_block && before.is_empty() && comment.starts_with("     ") {
                wrong.push(format!("{}:{number}: an indented block", file.display()));
            }
            before = comment;
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// True for a name of a file or a test that is there, and for what is neither.
fn names_what_exists(name: &str, files: &[String], tests: &BTreeSet<String>) -> bool {
    let scenario = format!("crates/pure/pod/testdata/{name}");
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
