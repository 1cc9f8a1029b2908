//! The file system that the virtual machine boots with: busybox, rekindle and what mounts shares
//! with their libraries, modules, manifests.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use super::Parts;
use super::cpio::Archive;

/// In the order in which they are loaded; the kernel has everything else that is needed built in.
const MODULES: [&str; 16] = [
    "fs/overlayfs/overlay.ko",
    "net/llc/llc.ko",
    "net/802/stp.ko",
    "net/bridge/bridge.ko",
    "drivers/net/veth.ko",
    "net/sunrpc/sunrpc.ko",
    "net/sunrpc/auth_gss/auth_rpcgss.ko",
    "fs/nfs_common/grace.ko",
    "fs/nfs_common/nfs_acl.ko",
    "fs/lockd/lockd.ko",
    "fs/nfsd/nfsd.ko",
    "net/dns_resolver/dns_resolver.ko",
    "fs/netfs/netfs.ko",
    "fs/fscache/fscache.ko",
    "fs/nfs/nfs.ko",
    "fs/nfs/nfsv4.ko",
];

/// Writes the archive.
pub(super) fn write(path: &Path, parts: &Parts) -> anyhow::Result<()> {
    let mut contents = vec![
        ("init".to_owned(), parts.scripts.join("init.sh")),
        ("smoke.sh".to_owned(), parts.scripts.join("smoke.sh")),
        ("manifests/limits.yaml".to_owned(), parts.scripts.join("limits.yaml")),
        ("manifests/poisoned.yaml".to_owned(), parts.examples.join("poisoned.yaml")),
        ("manifests/shares.yaml".to_owned(), parts.scripts.join("shares.yaml")),
        ("bin/busybox".to_owned(), parts.busybox.clone()),
        ("bin/rekindle".to_owned(), parts.rekindle.clone()),
        ("usr/bin/mount".to_owned(), PathBuf::from("/bin/mount")),
        ("sbin/mount.nfs".to_owned(), parts.packages.join("sbin/mount.nfs")),
    ];
    let programs = ["bin/rekindle", "usr/bin/mount", "sbin/mount.nfs"];
    let programs = contents.iter().filter(|(name, _)| programs.contains(&name.as_str()));
    let mut needed = BTreeSet::new();
    for (_, program) in programs {
        needed.extend(libraries(program, &parts.packages)?);
    }
    for library in needed {
        let inside = library.strip_prefix(&parts.packages).or_else(|_| library.strip_prefix("/"));
        let inside = inside.context("a library's path is absolute")?.display().to_string();
        contents.push((inside, library));
    }
    for (number, module) in MODULES.iter().enumerate() {
        let name = module.rsplit('/').next().unwrap_or(module);
        contents.push((
            format!("modules/{number:02}-{name}"),
            parts.modules.join("kernel").join(module),
        ));
    }
    let file = File::create(path).with_context(|| format!("create {}", path.display()))?;
    let mut archive = Archive::new(BufWriter::new(file));
    for folder in folders(&contents) {
        archive.folder(&folder)?;
    }
    for (name, source) in &contents {
        let bytes = std::fs::read(source).with_context(|| format!("read {}", source.display()))?;
        archive.file(name, &bytes)?;
    }
    archive.finish()?.into_inner().context("write the initramfs")?;
    Ok(())
}

/// All folders above the files, upper ones first.
fn folders(contents: &[(String, PathBuf)]) -> BTreeSet<String> {
    let above = |name: &String| {
        let parents = Path::new(name).ancestors().skip(1);
        parents
            .map(|path| path.display().to_string())
            .filter(|path| !path.is_empty())
            .collect::<Vec<_>>()
    };
    let mut folders: BTreeSet<String> = contents.iter().flat_map(|(name, _)| above(name)).collect();
    folders.extend(["lib".to_owned(), "lib64".to_owned()]);
    folders
}

/// The shared libraries of a program, its loader included: of the unpacked packages, else the
/// machine's.
fn libraries(program: &Path, packages: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let paths = ["lib", "usr/lib"].map(|folder| packages.join(folder).join("x86_64-linux-gnu"));
    let output = Command::new("ldd")
        .arg(program)
        .env("LD_LIBRARY_PATH", std::env::join_paths(paths)?)
        .output()
        .context("run ldd")?;
    if !output.status.success() {
        bail!("ldd {}: {}", program.display(), String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if let Some(missing) = text.lines().find(|line| line.contains("not found")) {
        bail!("{} cannot run: {}", program.display(), missing.trim());
    }
    Ok(text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect())
}
