//! Writing a projected volume so that a reader sees the old content or the new, never a mixture.
//!
//! ```text
//! <volume>/..data  ->  ..v7                   one rename of this link is the swap
//! <volume>/..v7/app.conf
//! <volume>/app.conf  ->  ..data/app.conf      one link for each first part of a path
//! ```
//! The shape is the kubelet's, so that programs which watch `..data` see what they know.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::error::VolumeProblem;
use super::payload::Payload;
use super::remove::remove_tree;

const DATA: &str = "..data";
const DATA_NEW: &str = "..data_tmp";
const VERSION_PREFIX: &str = "..v";

/// Brings `volume` to `payload`. True if that took a change.
pub(crate) fn write_payload(
    volume: &Path,
    payload: &Payload,
    group: Option<u32>,
) -> Result<bool, VolumeProblem> {
    let failed = |source: io::Error| VolumeProblem::io("write projected files in", volume, source);
    let current = current_version(volume);
    if let Some(current) = &current
        && holds(&volume.join(current), payload, group).map_err(failed)?
        && visible_names(volume).map_err(failed)? == first_parts(payload)
    {
        return Ok(false);
    }
    let next = next_version(current.as_deref());
    let folder = volume.join(&next);
    // left by an agent that died between writing and swapping
    remove_tree(&folder).map_err(failed)?;
    write_version(&folder, payload, group).map_err(failed)?;
    swap(volume, &next).map_err(failed)?;
    link_names(volume, payload).map_err(failed)?;
    remove_old(volume, &next).map_err(failed)?;
    Ok(true)
}

/// The name that `..data` points to, if it is one of ours.
fn current_version(volume: &Path) -> Option<String> {
    let target = fs::read_link(volume.join(DATA)).ok()?;
    let name = target.to_str()?;
    name.starts_with(VERSION_PREFIX).then(|| name.to_owned())
}

fn next_version(current: Option<&str>) -> String {
    let number = current
        .and_then(|name| name.strip_prefix(VERSION_PREFIX))
        .and_then(|number| number.parse::<u64>().ok())
        .map_or(1, |number| number.wrapping_add(1));
    format!("{VERSION_PREFIX}{number}")
}

fn file_mode(mode: u32, group: Option<u32>) -> u32 {
    // with an fsGroup the group may read what the owner may, as with the kubelet
    if group.is_some() { mode | 0o440 } else { mode }
}

fn holds(folder: &Path, payload: &Payload, group: Option<u32>) -> io::Result<bool> {
    let mut files = Vec::new();
    list_files(folder, Path::new(""), &mut files)?;
    if files.len() != payload.len() {
        return Ok(false);
    }
    for (name, file) in payload {
        let path = folder.join(name);
        let Ok(metadata) = fs::symlink_metadata(&path) else { return Ok(false) };
        let same_mode = metadata.permissions().mode() & 0o777 == file_mode(file.mode, group);
        let same_owner = metadata.uid() == file.owner.unwrap_or(0);
        let same_size = usize::try_from(metadata.len()).is_ok_and(|len| len == file.data.len());
        let same = metadata.is_file() && same_mode && same_owner && same_size;
        if !same || fs::read(&path)? != file.data {
            return Ok(false);
        }
    }
    Ok(true)
}

fn list_files(root: &Path, beneath: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let folder = root.join(beneath);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let path = beneath.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            list_files(root, &path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

fn write_version(folder: &Path, payload: &Payload, group: Option<u32>) -> io::Result<()> {
    make_folder(folder, group)?;
    for (name, file) in payload {
        let path = folder.join(name);
        make_parents(folder, Path::new(name), group)?;
        let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        out.write_all(&file.data)?;
        std::os::unix::fs::fchown(&out, file.owner, group)?;
        out.set_permissions(Permissions::from_mode(file_mode(file.mode, group)))?;
    }
    Ok(())
}

fn make_parents(folder: &Path, name: &Path, group: Option<u32>) -> io::Result<()> {
    let mut path = folder.to_owned();
    for part in name.parent().into_iter().flat_map(Path::components) {
        path.push(part);
        make_folder(&path, group)?;
    }
    Ok(())
}

fn make_folder(path: &Path, group: Option<u32>) -> io::Result<()> {
    match DirBuilder::new().mode(0o755).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error),
    }
    std::os::unix::fs::lchown(path, None, group)?;
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

fn swap(volume: &Path, version: &str) -> io::Result<()> {
    let new = volume.join(DATA_NEW);
    match fs::remove_file(&new) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    symlink(version, &new)?;
    fs::rename(&new, volume.join(DATA))
}

fn first_parts(payload: &Payload) -> BTreeSet<String> {
    payload.keys().map(|name| name.split('/').next().unwrap_or_default().to_owned()).collect()
}

/// What a user of the volume sees: everything but the names of the swap itself.
fn visible_names(volume: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(volume)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.starts_with("..") {
            names.insert(name);
        }
    }
    Ok(names)
}

fn link_names(volume: &Path, payload: &Payload) -> io::Result<()> {
    let wanted = first_parts(payload);
    let present = visible_names(volume)?;
    for name in &wanted {
        let (link, target) = (volume.join(name), Path::new(DATA).join(name));
        // a privileged pod may have put something else there
        if fs::read_link(&link).is_ok_and(|found| found == target) {
            continue;
        }
        remove_tree(&link)?;
        symlink(target, link)?;
    }
    for name in present.difference(&wanted) {
        remove_tree(&volume.join(name))?;
    }
    Ok(())
}

fn remove_old(volume: &Path, current: &str) -> io::Result<()> {
    for entry in fs::read_dir(volume)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        if name.starts_with(VERSION_PREFIX) && name != current {
            remove_tree(&volume.join(name))?;
        }
    }
    Ok(())
}
