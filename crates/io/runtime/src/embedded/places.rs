//! Mount points that few images have: layers of empty folders and files. One of them lies beneath
//! an image's own layers, so that nothing has to be written for a container before it runs: each
//! place that is missing costs a folder or a file on the disk, made through overlayfs, and removed
//! again with the container.
//!
//! A container has a layer only if it mounts something at each of the layer's places: it sees no
//! folder that it would not have otherwise.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::layout;
use crate::spec::{Mount, MountSource};

/// What every container gets by itself.
const SYSTEM: [&str; 3] = ["dev", "proc", "sys"];
/// The files that a pod's containers share.
const FILES: [&str; 3] = ["etc/hostname", "etc/hosts", "etc/resolv.conf"];
/// The identity that nearly all of them have.
const ACCOUNT: &str = "var/run/secrets/kubernetes.io/serviceaccount";

/// One layer: its name, and which folders it has besides [`SYSTEM`] and [`FILES`].
struct BaseLayer {
    name: &'static str,
    folders: &'static [&'static str],
}

/// Those with the most places first.
const LAYERS: [BaseLayer; 2] =
    [BaseLayer { name: "account", folders: &[ACCOUNT] }, BaseLayer { name: "pod", folders: &[] }];

/// Those that stand on disk, with their folders.
pub(crate) struct BaseLayers {
    layers: Vec<(BaseLayer, PathBuf)>,
}

impl BaseLayers {
    /// Makes what of them is missing. One that cannot be made (on a full disk) is done without.
    pub(crate) fn open(dir: &Path) -> Self {
        let stands = |layer: BaseLayer| {
            let root = dir.join(layer.name);
            match layout::make_private_dir(dir).and_then(|()| layer.make(&root)) {
                Ok(()) => Some((layer, root)),
                Err(error) => {
                    tracing::warn!(%error, path = %root.display(), "failed to make the mount points of containers");
                    None
                }
            }
        };
        Self { layers: LAYERS.into_iter().filter_map(stands).collect() }
    }

    /// The layer for a container with these mounts.
    pub(crate) fn beneath(&self, mounts: &[Mount]) -> Option<PathBuf> {
        self.layers.iter().find(|(layer, _)| layer.fits(mounts)).map(|(_, root)| root.clone())
    }
}

impl BaseLayer {
    fn make(&self, root: &Path) -> io::Result<()> {
        for folder in SYSTEM.iter().chain(self.folders) {
            make_folders(root, Path::new(folder))?;
        }
        for file in FILES.map(Path::new) {
            make_folders(root, file.parent().unwrap_or(Path::new("")))?;
            make_file(&root.join(file))?;
        }
        Ok(())
    }

    fn fits(&self, mounts: &[Mount]) -> bool {
        FILES.iter().all(|place| is_taken(mounts, place, Path::is_file))
            && self.folders.iter().all(|place| is_taken(mounts, place, Path::is_dir))
    }
}

/// Whether something is mounted there, and it is what the place is made for: nothing else could be
/// mounted on it.
fn is_taken(mounts: &[Mount], place: &str, is_such: fn(&Path) -> bool) -> bool {
    mounts.iter().any(|mount| match &mount.source {
        MountSource::Host(source) => {
            mount.sub_path.is_none()
                && mount.destination == Path::new("/").join(place)
                && is_such(source)
        }
        MountSource::Image(_) => false,
    })
}

/// Open to everybody, whatever the umask is, as all that is made for a container.
fn make_folders(root: &Path, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(root.join(folder))?;
    for part in folder.ancestors() {
        fs::set_permissions(root.join(part), Permissions::from_mode(0o755))?;
    }
    Ok(())
}

fn make_file(path: &Path) -> io::Result<()> {
    File::options().create(true).append(true).open(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o644))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{MountAccess, MountOptions};

    fn mount(source: &Path, destination: &str) -> Mount {
        Mount {
            source: MountSource::Host(source.to_owned()),
            sub_path: None,
            destination: destination.into(),
            access: MountAccess::ReadWrite,
            options: MountOptions::default(),
        }
    }

    #[test]
    fn a_container_has_the_places_that_it_mounts_something_at_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let places = BaseLayers::open(&dir.path().join("places"));
        let (file, folder) = (dir.path().join("file"), dir.path().to_owned());
        fs::write(&file, "").unwrap();
        let etc = ["/etc/hosts", "/etc/hostname", "/etc/resolv.conf"];
        let files = || etc.map(|path| mount(&file, path)).to_vec();
        let with = |more: Mount| [files(), vec![more]].concat();
        let account = rekindle_types::service_account::MOUNT_PATH;
        let of_a_path = Mount { sub_path: Some("x".into()), ..mount(&folder, account) };
        let image = MountSource::Image("x".to_owned());
        let of_an_image = Mount { source: image, ..mount(&folder, account) };
        let cases = [
            ("nothing", vec![], None),
            ("two files", files()[..2].to_vec(), None),
            (
                "a folder for a file",
                [files()[..2].to_vec(), vec![mount(&folder, etc[2])]].concat(),
                None,
            ),
            ("the files", files(), Some("pod")),
            ("and an account", with(mount(&folder, account)), Some("account")),
            ("and a file there", with(mount(&file, account)), Some("pod")),
            ("and a part of a volume there", with(of_a_path), Some("pod")),
            ("and an image there", with(of_an_image), Some("pod")),
            ("and something else", with(mount(&folder, "/data")), Some("pod")),
        ];
        for (what, mounts, layer) in cases {
            let expected = layer.map(|name| dir.path().join("places").join(name));
            assert_eq!(places.beneath(&mounts), expected, "{what}");
        }
    }

    #[test]
    fn what_is_missing_is_made_and_everybody_may_look_at_it() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("places");
        BaseLayers::open(&at);
        fs::remove_file(at.join("pod/etc/hosts")).unwrap();
        fs::set_permissions(at.join("account/var/run"), Permissions::from_mode(0o700)).unwrap();
        BaseLayers::open(&at);
        let mode = |path: &str| fs::metadata(at.join(path)).unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode("pod/etc/hosts"), 0o644);
        assert_eq!(mode("account/var/run"), 0o755);
        assert_eq!(mode("account/var/run/secrets/kubernetes.io/serviceaccount"), 0o755);
        assert_eq!(mode(""), 0o700);
    }

    #[test]
    fn a_layer_that_cannot_be_made_is_done_without() {
        let dir = tempfile::tempdir().unwrap();
        let (at, file) = (dir.path().join("places"), dir.path().join("file"));
        fs::create_dir(&at).unwrap();
        fs::write(at.join("pod"), "in its way").unwrap();
        fs::write(&file, "").unwrap();
        let files = FILES.map(|place| mount(&file, &format!("/{place}"))).to_vec();
        assert_eq!(BaseLayers::open(&at).beneath(&files), None);
        fs::remove_file(at.join("pod")).unwrap();
        assert_eq!(BaseLayers::open(&at).beneath(&files), Some(at.join("pod")));
    }
}
