//! The container image of the operator and the agent: one static program and the certificates of
//! public authorities, packed as an OCI archive. No shell, no libraries. A list of what the program
//! was built from lies beside it, in CycloneDX.
//!
//! ```text
//!   build, one static binary for each architecture      (here)
//!     -> folders and files as one layer                 layer
//!     -> config, manifest, index, list of parts         layout
//! ```

mod layer;
mod layout;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::{cargo_command, run, tools};
use layout::{Image, Layout};

/// What `cargo xtask image` is asked for.
#[derive(Args)]
pub(crate) struct Options {
    /// For this architecture; given twice, the archive has both [default: that of this machine]
    #[arg(long = "arch", value_enum)]
    architectures: Vec<Architecture>,
    /// The name that runtimes give it when they load the archive
    #[arg(long, default_value = concat!("localhost/rekindle:", env!("CARGO_PKG_VERSION")))]
    name: String,
    /// Pack this static program, and build none
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Where the archive goes
    #[arg(long, value_name = "FILE", default_value = "target/rekindle-image.tar")]
    output: PathBuf,
}

/// The architectures that the binary is built for, by their names in images.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Architecture {
    Amd64,
    Arm64,
}

impl Architecture {
    fn of_this_machine() -> anyhow::Result<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Ok(Self::Amd64),
            "aarch64" => Ok(Self::Arm64),
            other => bail!("no image is built for {other}: give --arch amd64 or --arch arm64"),
        }
    }

    pub(crate) fn image_name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    fn target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// Debian's name of the linker and C compiler for it.
    fn compiler(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-linux-gnu-gcc",
            Self::Arm64 => "aarch64-linux-gnu-gcc",
        }
    }
}

/// Builds, packs and writes the archive.
pub(crate) fn pack(options: &Options) -> anyhow::Result<()> {
    let architectures = match options.architectures.as_slice() {
        [] => vec![Architecture::of_this_machine()?],
        asked => asked.to_vec(),
    };
    if options.binary.is_some() && architectures.len() > 1 {
        bail!("--binary is a program of one architecture: give one --arch");
    }
    let authorities = tools::certificate_authorities()?;
    let authorities =
        std::fs::read(&authorities).with_context(|| format!("read {}", authorities.display()))?;
    let parts = parts()?;
    let mut layout = Layout::new(&options.name);
    for architecture in architectures {
        let binary = match &options.binary {
            Some(binary) => binary.clone(),
            None => build(architecture)?,
        };
        let program =
            std::fs::read(&binary).with_context(|| format!("read {}", binary.display()))?;
        if needs_a_loader(&program) {
            bail!("{} is no static program: an image has no libraries", binary.display());
        }
        layout.add(&Image {
            architecture: architecture.image_name(),
            layer: layer::pack(&program, &authorities)?,
            labels: labels()?,
            parts: &parts,
        })?;
    }
    let archive = layout.archive()?;
    std::fs::write(&options.output, &archive)
        .with_context(|| format!("write {}", options.output.display()))?;
    let mebibytes = archive.len() / (1024 * 1024);
    eprintln!("wrote {} ({mebibytes} MiB): {}", options.output.display(), options.name);
    Ok(())
}

/// A release build without shared libraries. Flags for the program alone need a named target: build
/// scripts and procedural macros cannot be static.
fn build(architecture: Architecture) -> anyhow::Result<PathBuf> {
    let target = architecture.target();
    let mut cargo = cargo_command();
    cargo
        .args(["build", "--release", "--locked", "--package", "rekindle", "--target", target])
        .env("RUSTFLAGS", "-C target-feature=+crt-static");
    if architecture != Architecture::of_this_machine()? {
        let compiler = architecture.compiler();
        if Command::new(compiler).arg("--version").output().is_err() {
            bail!(
                "{compiler} is not installed: Debian has it in gcc-{}; the Rust library comes with \
                 `rustup target add {target}`",
                compiler.trim_end_matches("-gcc")
            );
        }
        let variable = target.to_uppercase().replace('-', "_");
        cargo
            .env(format!("CARGO_TARGET_{variable}_LINKER"), compiler)
            .env(format!("CC_{}", target.replace('-', "_")), compiler);
    }
    run(&mut cargo)?;
    Ok(tools::target_dir().join(target).join("release/rekindle"))
}

/// Whether an ELF program names an interpreter, so that it needs libraries. Program headers of type
/// 3 do (`PT_INTERP`, elf(5)).
fn needs_a_loader(program: &[u8]) -> bool {
    const INTERPRETER: u32 = 3;
    let number = |at: usize, size: usize| -> Option<usize> {
        let bytes = program.get(at..at.checked_add(size)?)?;
        Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    };
    let headers = || {
        let (offset, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        Some((0..count).filter_map(move |index| number(offset + index * size, 4)))
    };
    program.starts_with(b"\x7fELF")
        && headers().is_some_and(|mut kinds| kinds.any(|kind| kind == INTERPRETER as usize))
}

/// Labels by the OCI's names, the same for the same commit.
fn labels() -> anyhow::Result<Vec<(&'static str, String)>> {
    let git = |arguments: &[&str]| -> anyhow::Result<String> {
        let output = Command::new("git").args(arguments).current_dir(tools::root()).output()?;
        if !output.status.success() {
            bail!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    Ok(vec![
        ("org.opencontainers.image.title", "rekindle".to_owned()),
        (
            "org.opencontainers.image.description",
            "The restart ladder on Kubernetes clusters: operator and node agent".to_owned(),
        ),
        ("org.opencontainers.image.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("org.opencontainers.image.licenses", "Apache-2.0".to_owned()),
        ("org.opencontainers.image.revision", git(&["rev-parse", "HEAD"])?),
        ("org.opencontainers.image.created", git(&["log", "-1", "--format=%cI"])?),
    ])
}

/// The crates in the program, as a document of CycloneDX, the same for the same commit.
fn parts() -> anyhow::Result<Vec<u8>> {
    let output = tools::cargo_sbom()?
        .args(["sbom", "--cargo-package", "rekindle"])
        .args(["--output-format", "cyclone_dx_json_1_6", "--project-directory"])
        .arg(tools::root())
        .output()
        .context("run cargo-sbom")?;
    if !output.status.success() {
        bail!("cargo-sbom: {}", String::from_utf8_lossy(&output.stderr));
    }
    let mut document: Value = serde_json::from_slice(&output.stdout)?;
    let fields = document.as_object_mut().context("a document of CycloneDX is an object")?;
    fields.remove("serialNumber"); // of this run, as are the next
    let metadata = fields["metadata"].as_object_mut().context("a document has metadata")?;
    for of_this_run in ["authors", "timestamp"] {
        metadata.remove(of_this_run);
    }
    sort_lists(&mut document);
    Ok(serde_json::to_vec(&document)?)
}

/// Puts the members of each list into one order: `cargo-sbom` writes them in another one each time,
/// and the order of parts, of what they depend on and of licences says nothing.
fn sort_lists(value: &mut Value) {
    match value {
        Value::Array(members) => {
            members.iter_mut().for_each(sort_lists);
            members.sort_by_cached_key(Value::to_string);
        }
        Value::Object(fields) => fields.values_mut().for_each(sort_lists),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_in_another_order_are_the_same_list_of_parts() {
        let part = |name: &str, on: &[&str]| json!({"ref": name, "dependsOn": on});
        let mut one = json!({"parts": [part("a", &["c", "b"]), part("b", &[])], "version": 1});
        let mut other = json!({"parts": [part("b", &[]), part("a", &["b", "c"])], "version": 1});
        sort_lists(&mut one);
        sort_lists(&mut other);
        assert_eq!(one.to_string(), other.to_string());
        assert_eq!(one["parts"].as_array().map(Vec::len), Some(2));
    }
}
