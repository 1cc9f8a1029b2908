//! Builds the shim as a small static program and hands its path on, so that the one binary carries it.
//!
//! A nested cargo with its own target folder: the shim wants another profile and other flags than the rest.
#![allow(clippy::disallowed_methods, reason = "starting a compiler is what it is for")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let manifest_dir = PathBuf::from(var("CARGO_MANIFEST_DIR"));
    let shim = manifest_dir.join("../shim");
    for path in ["src", "Cargo.toml"] {
        println!("cargo::rerun-if-changed={}", shim.join(path).display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    let target_dir = PathBuf::from(var("OUT_DIR")).join("shim");
    let target = var("TARGET");
    build(&shim, &target_dir, &target);
    let built = target_dir.join(&target).join("shim").join("rekindle-shim");
    println!("cargo::rustc-env=REKINDLE_SHIM={}", built.display());
}

fn build(shim: &Path, target_dir: &Path, target: &str) {
    let mut cargo = Command::new(var("CARGO"));
    cargo
        .args(["build", "--locked", "--profile", "shim", "--bin", "rekindle-shim"])
        // With a target, the flags below are not for build scripts and procedural macros, which cannot be static.
        .args(["--target", target])
        .arg("--manifest-path")
        .arg(shim.join("Cargo.toml"))
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
        Ok(status) => panic!("building the shim failed: {status}"),
        Err(error) => panic!("building the shim failed: {error}"),
    }
}

fn var(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name} for build scripts"))
}
