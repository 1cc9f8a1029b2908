//! The built-in image `localhost/host`: what anybody may read of the machine's own root file
//! system, under a private writable layer. For tools, demos and tests. The shim shows it
//! (docs/adr/0044); whatever a container may do, a file that is closed to other users on the
//! machine stays closed to it.

use std::path::{Path, PathBuf};

use super::{BuiltinImages, HostImage, ImageConfig, ImageError, ResolvedImage, Rootfs, UpperKind};
use crate::image::digest::sha256_id;

/// The name behind `localhost/host` in its full form.
pub(crate) const HOST: &str = "localhost/host:latest";
/// The name behind `localhost/demo` in its full form.
pub(crate) const DEMO: &str = "localhost/demo:latest";

/// What the image shows.
const ROOT: &str = "/";
/// Of overlayfs, as statfs(2) tells it.
const OVERLAYFS_MAGIC: u64 = 0x794c_7630;

/// `localhost/host` as it is now, or why it cannot be had on this machine.
pub(crate) fn host(builtins: &BuiltinImages) -> Result<ResolvedImage, ImageError> {
    let refused = |problem| Err(ImageError::HostImage { problem });
    match builtins.host_image {
        HostImage::Off => refused(OFF),
        HostImage::On if is_overlay(Path::new(ROOT)) => refused(STACKED),
        HostImage::On => Ok(resolved(builtins)),
    }
}

const OFF: &str = "the engine was started with --host-image=off: use another image, or start it with --host-image=on";
const STACKED: &str = "the root of this machine is an overlay itself, as in a container or a live system, and the kernel stacks \
    too few to hide what is not public: use another image, such as localhost/demo";

/// The kernel stacks two overlays; the image's own are two.
fn is_overlay(dir: &Path) -> bool {
    rustix::fs::statfs(dir).is_ok_and(|found| u64::try_from(found.f_type) == Ok(OVERLAYFS_MAGIC))
}

fn resolved(builtins: &BuiltinImages) -> ResolvedImage {
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
            lower_dirs: Vec::new(),
            public_dir: Some(PathBuf::from(ROOT)),
            upper: UpperKind::Tmpfs { size_bytes: builtins.host_write_limit_bytes },
            // what is not there needs no mask, and a read-only root could not be given a place for
            // one
            mask: builtins
                .engine_dirs
                .iter()
                .filter(|path| path.symlink_metadata().is_ok())
                .cloned()
                .collect(),
        },
    }
}

/// The same on every machine: what the image is does not follow from any content that we could
/// digest.
pub(crate) fn host_id() -> String {
    sha256_id(b"rekindle localhost/host 1")
}

#[cfg(test)]
mod tests {
    use rekindle_types::host_image::is_host_image;

    use super::super::ImageReference;
    use super::*;

    fn builtins(host_image: HostImage, engine_dirs: Vec<PathBuf>) -> BuiltinImages {
        BuiltinImages { engine_dirs, host_write_limit_bytes: 7, host_image }
    }

    #[test]
    fn the_host_image_is_what_is_public_of_the_root_and_hides_the_engine() {
        let engine = tempfile::tempdir().unwrap();
        let dirs = vec![engine.path().to_owned(), "/no/such/folder".into()];
        let image = resolved(&builtins(HostImage::On, dirs));
        assert_eq!(image.rootfs.public_dir, Some(PathBuf::from("/")));
        assert!(image.rootfs.lower_dirs.is_empty(), "nothing is shown as root sees it");
        assert_eq!(image.rootfs.upper, UpperKind::Tmpfs { size_bytes: 7 });
        assert_eq!(image.rootfs.mask, [engine.path()]);
    }

    #[test]
    fn an_engine_without_the_host_image_says_what_to_do() {
        let error = host(&builtins(HostImage::Off, Vec::new())).unwrap_err();
        assert_eq!(error.kind(), crate::error::ImageErrorKind::Pull);
        let told = error.to_runtime("localhost/host").to_string();
        assert!(told.contains("--host-image=off: use another image"), "{told}");
    }

    #[test]
    fn proc_is_no_overlay() {
        assert!(!is_overlay(Path::new("/proc")));
    }

    /// The API refuses the host image by its name: it must know every text that leads here.
    #[test]
    fn the_api_knows_the_host_image_by_every_name_that_resolves_to_it() {
        let id = host_id();
        assert!(is_host_image(&id) && is_host_image(id.trim_start_matches("sha256:")), "{id}");
        assert!(is_host_image(HOST));
        for image in [
            "localhost/host",
            "localhost/host:latest",
            "host",
            "localhost:80/host",
            "LOCALHOST/host",
        ] {
            let reference = ImageReference::parse(image).unwrap().to_string();
            assert_eq!(reference == HOST, is_host_image(image), "{image} is {reference}");
        }
        assert!(!is_host_image(DEMO));
    }
}
