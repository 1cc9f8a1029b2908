//! Builds the programs that the one binary carries, small and static, and hands their paths on: the
//! shim, and the app of the demo image.
//!
//! A nested cargo with its own target folder: they want another profile and other flags than the
//! rest.
#![allow(clippy::disallowed_methods, reason = "starting a compiler is what it is for")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs, the folders of their crates within `crates`, and what their paths are handed on
/// as.
const CARRIED: [(&str, &str, &str); 2] =
    [("rekindle-shim", "io/shim", "REKINDLE_SHIM"), ("rekindle-demo", "app/demo", "REKINDLE_DEMO")];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let workspace = PathBuf::from(var("CARGO_MANIFEST_DIR")).join("../../..");
    let target_dir = PathBuf::from(var("OUT_DIR")).join("carried");
    let target = var("TARGET");
    build(&workspace, &target_dir, &target);
    for (program, folder, variable) in CARRIED {
        let source = workspace.join("crates").join(folder);
        for path in ["src", "Cargo.toml"] {
            println!("cargo::rerun-if-changed={}", source.join(path).display());
        }
        let built = target_dir.join(&target).join("small").join(program);
        println!("cargo::rustc-env={variable}={}", built.display());
    }
}

/// Both at once: the last step of each, one unit of code for the whole program, takes one core.
fn build(workspace: &Path, target_dir: &Path, target: &str) {
    let mut cargo = Command::new(var("CARGO"));
    cargo.arg("build");
    for (program, ..) in CARRIED {
        cargo.args(["--package", program, "--bin", program]);
    }
    cargo
        .args(["--locked", "--profile", "small"])
        // With a target, the flags below are not for build scripts and procedural macros, which
        // cannot be static.
        .args(["--target", target])
        .arg("--manifest-path")
        .arg(workspace.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target_dir)
        .env("RUSTFLAGS", "-C target-feature=+crt-static -C relocation-model=static")
        // What the outer build is told about its own compiler, flags and profile.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_BUILD_RUSTFLAGS")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_MAKEFLAGS");
    let status = cargo.status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("building the carried programs failed: {status}"),
        Err(error) => panic!("building the carried programs failed: {error}"),
    }
}

fn var(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name} for build scripts"))
}
