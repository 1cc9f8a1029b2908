//! The built-in image `localhost/host`: the machine's own root file system, seen read-only under a private writable layer.
//! For tools, demos and tests, not for untrusted pods: what root may read on the host and is not masked can be read.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Builtins, ImageConfig, ResolvedImage, Rootfs, UpperKind};
use crate::image::digest::sha256_id;

/// The name behind `localhost/host` in its full form.
pub(crate) const HOST: &str = "localhost/host:latest";
/// The name behind `localhost/demo` in its full form.
pub(crate) const DEMO: &str = "localhost/demo:latest";

/// Secrets that live at fixed places on a machine.
const SECRETS: [&str; 14] = [
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/ssl/private",
    "/etc/kubernetes",
    "/etc/rancher",
    "/root/.ssh",
    "/root/.kube",
    "/root/.docker",
    "/root/.gnupg",
    "/root/.aws",
    "/root/.netrc",
    "/var/lib/kubelet",
];
/// Secrets below each folder of /home.
const HOME_SECRETS: [&str; 6] = [".ssh", ".kube", ".docker", ".gnupg", ".aws", ".netrc"];

/// `localhost/host` as it is now.
pub(crate) fn host(builtins: &Builtins) -> ResolvedImage {
    ResolvedImage {
        id: host_id(),
        config: ImageConfig {
            entrypoint: Vec::new(),
            cmd: vec!["/bin/sh".to_owned()],
            env: vec![(
                "PATH".to_owned(),
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
            )],
            working_dir: "/".to_owned(),
            user: String::new(),
            stop_signal: None,
            volumes: Vec::new(),
        },
        rootfs: Rootfs {
            lower_dirs: vec![PathBuf::from("/")],
            upper: UpperKind::Tmpfs { size_bytes: builtins.host_write_limit_bytes },
            mask: host_mask(builtins),
        },
    }
}

/// The same on every machine: what the image is does not follow from any content that we could digest.
pub(crate) fn host_id() -> String {
    sha256_id(b"rekindle localhost/host 1")
}

fn host_mask(builtins: &Builtins) -> Vec<PathBuf> {
    let mut mask: Vec<PathBuf> = SECRETS.iter().map(PathBuf::from).collect();
    mask.extend(host_keys(Path::new("/etc/ssh")));
    for home in entries(Path::new("/home")) {
        mask.extend(HOME_SECRETS.iter().map(|secret| home.join(secret)));
    }
    mask.extend(builtins.engine_dirs.iter().cloned());
    // what is not there needs no mask, and a read-only root could not be given a place for one
    mask.retain(|path| path.symlink_metadata().is_ok());
    mask
}

fn host_keys(dir: &Path) -> Vec<PathBuf> {
    let is_key = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with("_key"))
    };
    entries(dir).into_iter().filter(is_key).collect()
}

/// A folder's entries, in order; one that is absent or closed has none that a container could see through us.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let Ok(listing) = fs::read_dir(dir) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = listing.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_image_hides_passwords_and_the_engine() {
        let engine = tempfile::tempdir().unwrap();
        let builtins = Builtins {
            engine_dirs: vec![engine.path().to_owned(), "/no/such/folder".into()],
            host_write_limit_bytes: 7,
        };
        let image = host(&builtins);
        assert_eq!(image.rootfs.lower_dirs, [PathBuf::from("/")]);
        assert_eq!(image.rootfs.upper, UpperKind::Tmpfs { size_bytes: 7 });
        assert!(image.rootfs.mask.contains(&engine.path().to_owned()));
        assert!(!image.rootfs.mask.contains(&"/no/such/folder".into()));
        assert_eq!(
            image.rootfs.mask.contains(&"/etc/shadow".into()),
            Path::new("/etc/shadow").exists()
        );
    }
}
