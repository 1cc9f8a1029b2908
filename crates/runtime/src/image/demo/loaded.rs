//! The shared objects that this process has loaded, from /proc/self/maps.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const DELETED: &str = " (deleted)";

/// One shared object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SharedObject {
    /// Where it was loaded from.
    pub(super) path: PathBuf,
    /// Where its content is now: the same, or the mapping when an upgrade has replaced the file.
    pub(super) source: PathBuf,
    /// Other names in its folder by which programs ask for it (`libz.so.1` for `libz.so.1.3`).
    pub(super) aliases: Vec<OsString>,
}

/// All of them, in the order of their paths, the loader included, the program itself not.
pub(super) fn shared_objects() -> io::Result<Vec<SharedObject>> {
    let program = fs::read_link("/proc/self/exe")?;
    let maps = fs::read_to_string("/proc/self/maps")?;
    let mut objects = parse(&maps, &program);
    for object in &mut objects {
        object.aliases = aliases(&object.path);
    }
    Ok(objects)
}

/// The executable mappings of files.
fn parse(maps: &str, program: &Path) -> Vec<SharedObject> {
    let mut objects: Vec<SharedObject> = Vec::new();
    for line in maps.lines() {
        let mut fields = line.splitn(6, ' ');
        let (Some(range), Some(permissions)) = (fields.next(), fields.next()) else { continue };
        let path = fields.nth(3).unwrap_or_default().trim_start();
        if !permissions.contains('x') || !path.starts_with('/') || Path::new(path) == program {
            continue;
        }
        let (path, source) = match path.strip_suffix(DELETED) {
            Some(path) => (PathBuf::from(path), Path::new("/proc/self/map_files").join(range)),
            None => (PathBuf::from(path), PathBuf::from(path)),
        };
        if !objects.iter().any(|object| object.path == path) {
            objects.push(SharedObject { path, source, aliases: Vec::new() });
        }
    }
    objects.sort_by(|a, b| a.path.cmp(&b.path));
    objects
}

fn aliases(path: &Path) -> Vec<OsString> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str()))
    else {
        return Vec::new();
    };
    let stem = name.split(".so").next().unwrap_or(name);
    let Ok(listing) = fs::read_dir(dir) else { return Vec::new() };
    let mut aliases: Vec<OsString> = listing
        .flatten()
        .filter(|entry| entry.file_name() != name)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(stem))
        .filter(|entry| fs::canonicalize(entry.path()).is_ok_and(|target| target == path))
        .map(|entry| entry.file_name())
        .collect();
    aliases.sort();
    aliases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_mappings_of_files_are_shared_objects() {
        let maps = "\
55e0-55e1 r-xp 00000000 fe:00 1   /opt/rekindle
7f01-7f02 r--p 00000000 fe:00 2   /usr/lib/x/libc.so.6
7f02-7f03 r-xp 00001000 fe:00 2   /usr/lib/x/libc.so.6
7f03-7f04 r-xp 00001000 fe:00 3   /usr/lib/x/libz.so.1 (deleted)
7f04-7f05 rw-p 00000000 fe:00 4   /data/store.db
7f06-7f07 rw-p 00000000 00:00 0
7ffe-7fff r-xp 00000000 00:00 0                          [vdso]
";
        let objects = parse(maps, Path::new("/opt/rekindle"));
        let found: Vec<_> = objects
            .iter()
            .map(|o| (o.path.to_str().unwrap(), o.source.to_str().unwrap()))
            .collect();
        assert_eq!(
            found,
            [
                ("/usr/lib/x/libc.so.6", "/usr/lib/x/libc.so.6"),
                ("/usr/lib/x/libz.so.1", "/proc/self/map_files/7f03-7f04"),
            ]
        );
    }
}
