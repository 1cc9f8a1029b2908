//! The manifest by which krew installs the program as a plugin of kubectl, written from the
//! archives of a release: <https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/>.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;
use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};

use crate::image::Architecture;

/// The program in an archive; krew links `kubectl-rekindle` to it.
const PROGRAM: &str = "rekindle";
/// Krew wants the licence of a plugin beside it.
const LICENCE: &str = "LICENSE";
/// Krew shows 50 characters of it in a list.
const SHORT: &str = "Restart pods in place, and see why they died";

/// What `cargo xtask krew` is asked for.
#[derive(Args)]
pub(crate) struct Options {
    /// A .tar.gz of the release with `rekindle` and `LICENSE`, as amd64=FILE or arm64=FILE; once
    /// for each architecture
    #[arg(long = "archive", value_name = "ARCH=FILE", required = true, value_parser = ArchiveArgument::parse)]
    archives: Vec<ArchiveArgument>,
    /// Where the archives are published: an https URL, to which their file names are added
    #[arg(long, value_name = "URL")]
    base_url: String,
    /// The page of the project
    #[arg(long, value_name = "URL")]
    homepage: String,
    /// Where the manifest goes
    #[arg(long, value_name = "FILE", default_value = "target/rekindle.yaml")]
    output: PathBuf,
}

#[derive(Clone)]
struct ArchiveArgument {
    architecture: Architecture,
    file: PathBuf,
}

impl ArchiveArgument {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "give amd64=FILE or arm64=FILE".to_owned();
        let (name, file) = text.split_once('=').ok_or_else(wrong)?;
        let all = [Architecture::Amd64, Architecture::Arm64];
        let architecture = all.into_iter().find(|one| one.image_name() == name);
        Ok(Self { architecture: architecture.ok_or_else(wrong)?, file: file.into() })
    }
}

/// An archive as the manifest names it.
struct Platform {
    architecture: &'static str,
    url: String,
    sha256: String,
}

/// Reads the archives and writes the manifest.
pub(crate) fn write(options: &Options) -> anyhow::Result<()> {
    for url in [&options.base_url, &options.homepage] {
        let is_plain = url.chars().all(|char| char.is_ascii_graphic() && char != '"');
        ensure!(url.starts_with("https://") && is_plain, "{url:?} is no https URL");
    }
    let mut platforms = Vec::new();
    for ArchiveArgument { architecture, file } in &options.archives {
        platforms.push(platform(*architecture, file, &options.base_url)?);
    }
    let manifest = manifest(&platforms, &options.homepage);
    std::fs::write(&options.output, manifest)
        .with_context(|| format!("write {}", options.output.display()))?;
    eprintln!("wrote {}", options.output.display());
    Ok(())
}

fn platform(architecture: Architecture, file: &Path, base_url: &str) -> anyhow::Result<Platform> {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let archive = std::fs::read(file).with_context(|| format!("read {}", file.display()))?;
    let names = names(&archive).with_context(|| format!("look into {}", file.display()))?;
    for needed in [PROGRAM, LICENCE] {
        if !names.contains(needed) {
            bail!("{} has no file {needed}: it has {names:?}", file.display());
        }
    }
    let digest = Sha256::digest(&archive);
    let sha256 = digest.iter().fold(String::new(), |mut text, byte| {
        let _never_fails = write!(text, "{byte:02x}");
        text
    });
    let url = format!("{}/{name}", base_url.trim_end_matches('/'));
    Ok(Platform { architecture: architecture.image_name(), url, sha256 })
}

/// The files of an archive, with their paths.
fn names(archive: &[u8]) -> anyhow::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in tar::Archive::new(GzDecoder::new(archive)).entries()? {
        let path = entry?.path()?.into_owned();
        let path = path.strip_prefix(".").unwrap_or(&path);
        names.insert(path.display().to_string());
    }
    Ok(names)
}

fn manifest(platforms: &[Platform], homepage: &str) -> String {
    let mut text = format!(
        "apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: rekindle
spec:
  version: v{version}
  homepage: \"{homepage}\"
  shortDescription: {SHORT}
  description: |
    Restarts containers, whole pods in place, or groups of pods as one, and says why a pod died
    and what would help. On a cluster it reports what restart ladders would do before anything
    is restarted: kubectl rekindle report.
  caveats: |
    restart in place and ladders need Rekindle's operator and agents in the cluster;
    report and why need its operator.
  platforms:
",
        version = env!("CARGO_PKG_VERSION"),
    );
    for Platform { architecture, url, sha256 } in platforms {
        text.push_str(&format!(
            "  - selector: {{matchLabels: {{os: linux, arch: {architecture}}}}}
    uri: \"{url}\"
    sha256: {sha256}
    bin: {PROGRAM}
    files:
    - {{from: {PROGRAM}, to: .}}
    - {{from: {LICENCE}, to: .}}
"
        ));
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says by failing what it expected")]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    /// An archive with these empty files.
    fn archive(folder: &Path, files: &[&str]) -> PathBuf {
        let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for file in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(0);
            tar.append_data(&mut header, file, std::io::empty()).unwrap();
        }
        let path = folder.join("rekindle-linux.tar.gz");
        std::fs::write(&path, tar.into_inner().unwrap().finish().unwrap()).unwrap();
        path
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("rekindle-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn options(file: &Path, base_url: &str) -> Options {
        Options {
            archives: vec![
                ArchiveArgument::parse(&format!("arm64={}", file.display())).ok().unwrap(),
            ],
            base_url: base_url.to_owned(),
            homepage: "https://example.com".to_owned(),
            output: file.with_file_name("rekindle.yaml"),
        }
    }

    #[test]
    fn the_manifest_names_each_archive_with_its_digest() {
        let folder = folder("krew");
        let file = archive(&folder, &["./rekindle", "LICENSE"]);
        write(&options(&file, "https://example.com/v1/")).unwrap();
        let text = std::fs::read_to_string(folder.join("rekindle.yaml")).unwrap();
        let digest = Sha256::digest(std::fs::read(&file).unwrap());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        for line in [
            "kind: Plugin".to_owned(),
            concat!("  version: v", env!("CARGO_PKG_VERSION")).to_owned(),
            "  - selector: {matchLabels: {os: linux, arch: arm64}}".to_owned(),
            "    uri: \"https://example.com/v1/rekindle-linux.tar.gz\"".to_owned(),
            format!("    sha256: {digest}"),
            "    bin: rekindle".to_owned(),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_krew_would_refuse_is_refused() {
        let folder = folder("krew-refused");
        let file = archive(&folder, &["rekindle"]);
        let error = write(&options(&file, "https://example.com")).unwrap_err();
        assert!(error.to_string().contains("has no file LICENSE"), "{error}");
        let error = write(&options(&file, "http://example.com")).unwrap_err();
        assert!(error.to_string().contains("no https URL"), "{error}");
        std::fs::write(&file, "no archive").unwrap();
        assert!(write(&options(&file, "https://example.com")).is_err());
        assert!(ArchiveArgument::parse("riscv=x").is_err());
        assert!(SHORT.len() <= 50, "{SHORT}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
