//! Layers that behave and layers that do not. The folder that is unpacked into lies beside a
//! witness; whatever an archive does, the witness must not change (reliability: archive entries
//! with `..`, absolute paths, links outside, devices).

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;

struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("root")).unwrap();
        fs::create_dir(dir.path().join("witness")).unwrap();
        fs::write(dir.path().join("witness/file"), "untouched").unwrap();
        Self { dir }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    fn witness(&self) -> String {
        self.dir.path().join("witness").to_str().unwrap().to_owned()
    }

    fn unpack(&self, bytes: &[u8]) -> Result<UnpackedLayer, UnpackError> {
        let result = unpack(bytes, &self.root(), &UnpackLimits::default()).map(|(done, _)| done);
        self.assert_host_untouched();
        result
    }

    fn assert_host_untouched(&self) {
        let top: Vec<_> = names(self.dir.path());
        assert_eq!(top, ["root", "witness"]);
        assert_eq!(names(&self.dir.path().join("witness")), ["file"]);
        let file = self.dir.path().join("witness/file");
        assert_eq!(fs::read_to_string(&file).unwrap(), "untouched");
        let meta = fs::metadata(&file).unwrap();
        assert_eq!((meta.nlink(), meta.uid(), meta.mode() & 0o7777), (1, 0, 0o644));
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// One line of a layer in these tests.
#[derive(Clone, Debug)]
enum Line {
    File(String, u32, Vec<u8>),
    Folder(String, u32),
    Symlink(String, String),
    HardLink(String, String),
    Fifo(String),
    Device(String),
}

fn file(path: &str) -> Line {
    Line::File(path.to_owned(), 0o644, b"from the layer".to_vec())
}

fn folder(path: &str) -> Line {
    Line::Folder(path.to_owned(), 0o755)
}

fn symlink(path: &str, to: &str) -> Line {
    Line::Symlink(path.to_owned(), to.to_owned())
}

fn hard_link(path: &str, to: &str) -> Line {
    Line::HardLink(path.to_owned(), to.to_owned())
}

/// A tar of these lines; names are written as they are, however evil.
fn layer(lines: &[Line]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        let (kind, path, mode, link, body): (u8, &str, u32, &str, &[u8]) = match line {
            Line::File(path, mode, body) => (b'0', path, *mode, "", body),
            Line::Folder(path, mode) => (b'5', path, *mode, "", b""),
            Line::Symlink(path, to) => (b'2', path, 0o777, to, b""),
            Line::HardLink(path, to) => (b'1', path, 0o644, to, b""),
            Line::Fifo(path) => (b'6', path, 0o622, "", b""),
            Line::Device(path) => (b'3', path, 0o666, "", b""),
        };
        long(&mut bytes, b'L', path);
        long(&mut bytes, b'K', link);
        header(&mut bytes, kind, path, mode, link, body);
    }
    bytes.extend([0; 1024]);
    bytes
}

fn long(bytes: &mut Vec<u8>, kind: u8, name: &str) {
    if name.len() > 100 {
        header(bytes, kind, "././@LongLink", 0, "", name.as_bytes());
    }
}

fn header(bytes: &mut Vec<u8>, kind: u8, path: &str, mode: u32, link: &str, body: &[u8]) {
    let mut header = tar::Header::new_gnu();
    let block = header.as_mut_bytes();
    let cut = path.len().min(100);
    block[..cut].copy_from_slice(&path.as_bytes()[..cut]);
    let cut = link.len().min(100);
    block[157..157 + cut].copy_from_slice(&link.as_bytes()[..cut]);
    header.set_entry_type(tar::EntryType::new(kind));
    header.set_mode(mode);
    header.set_uid(11);
    header.set_gid(22);
    header.set_mtime(1_000_000_000);
    header.set_size(body.len() as u64);
    header.set_device_major(1).unwrap();
    header.set_device_minor(3).unwrap();
    header.set_cksum();
    bytes.extend(header.as_bytes());
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
}

fn is_whiteout(path: &Path) -> bool {
    let meta = fs::symlink_metadata(path).unwrap();
    meta.file_type().is_char_device() && meta.rdev() == 0
}

fn is_opaque(path: &Path) -> bool {
    let mut value = [0u8; 8];
    match rustix::fs::getxattr(path, "trusted.overlay.opaque", &mut value) {
        Ok(length) => &value[..length] == b"y",
        Err(rustix::io::Errno::NODATA) => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_layer_is_unpacked_with_owners_modes_times_and_links() {
    let world = World::new();
    let done = world
        .unpack(&layer(&[
            Line::Folder("./".into(), 0o711),
            Line::Folder("tmp".into(), 0o1777),
            Line::File("usr/bin/su".into(), 0o4755, b"su".to_vec()),
            hard_link("usr/bin/sudo", "usr/bin/su"),
            symlink("bin", "/usr/bin"),
            Line::Fifo("run/pipe".into()),
        ]))
        .unwrap();
    let implied = ["run", "usr", "usr/bin"].map(PathBuf::from).into();
    assert_eq!(done, UnpackedLayer { file_bytes: 2, entries: 6, devices_skipped: 0, implied });
    let meta = |path: &str| fs::symlink_metadata(world.root().join(path)).unwrap();
    assert_eq!(meta("").permissions().mode() & 0o7777, 0o711);
    assert_eq!(meta("tmp").permissions().mode() & 0o7777, 0o1777);
    assert_eq!(meta("tmp").mtime(), 1_000_000_000, "a folder's time outlives what is made in it");
    let su = meta("usr/bin/su");
    assert_eq!(
        (su.mode() & 0o7777, su.uid(), su.gid(), su.mtime()),
        (0o4755, 11, 22, 1_000_000_000)
    );
    assert_eq!(meta("usr/bin/sudo").ino(), su.ino());
    assert_eq!(meta("usr").mode() & 0o7777, 0o755, "a folder that the archive does not name");
    assert_eq!(fs::read_link(world.root().join("bin")).unwrap(), Path::new("/usr/bin"));
    assert!(meta("run/pipe").file_type().is_fifo());
}

#[test]
fn whiteouts_take_the_form_of_overlayfs() {
    let world = World::new();
    world
        .unpack(&layer(&[
            file("etc/.wh.passwd"),
            folder("cache"),
            file("cache/.wh..wh..opq"),
            file("cache/new"),
            file(".wh..wh.aufs"),
        ]))
        .unwrap();
    assert!(is_whiteout(&world.root().join("etc/passwd")));
    assert!(is_opaque(&world.root().join("cache")));
    assert!(!is_opaque(&world.root().join("etc")));
    assert_eq!(names(&world.root()), ["cache", "etc"]);
}

#[test]
fn a_whiteout_and_the_same_name_in_one_layer_mean_replaced() {
    // OCI image spec, layer.md: whiteouts hide lower layers only, in whichever order the entries
    // come
    let world = World::new();
    world
        .unpack(&layer(&[
            file(".wh.a"),
            folder("a"),
            file("a/new"),
            file("b/new"),
            file(".wh.b"),
            file(".wh.c"),
            file("c/d/new"),
            file("e"),
            file(".wh.e"),
            file(".wh.f"),
            file("f"),
        ]))
        .unwrap();
    for replaced in ["a", "b", "c"] {
        assert!(is_opaque(&world.root().join(replaced)), "{replaced}");
    }
    for kept in ["a/new", "b/new", "c/d/new", "e", "f"] {
        assert!(world.root().join(kept).is_file(), "{kept}");
    }
}

#[test]
fn a_later_entry_replaces_an_earlier_one() {
    let world = World::new();
    world
        .unpack(&layer(&[
            folder("a/deep/er"),
            file("a/deep/er/file"),
            symlink("a", "b"),
            file("b"),
            folder("b"),
            file("b/inside"),
            symlink("c", &world.witness()),
            folder("c"),
            file("c/file"),
            symlink("d", &format!("{}/file", world.witness())),
            file("d"),
        ]))
        .unwrap();
    assert_eq!(fs::read_link(world.root().join("a")).unwrap(), Path::new("b"));
    assert!(world.root().join("b/inside").is_file());
    assert!(world.root().join("c/file").is_file());
    assert!(!world.root().join("d").is_symlink());
}

#[test]
fn what_reaches_out_of_the_layer_is_refused_by_name_and_reason() {
    let world = World::new();
    let out = world.witness();
    let outside_file = format!("{out}/file");
    let cases: Vec<(Vec<Line>, &str)> = vec![
        (vec![file("../witness/file")], "`..`"),
        (vec![file("a/../../witness/file")], "`..`"),
        (vec![symlink("l", &out), file("l/file")], "is a symbolic link"),
        (vec![symlink("l", &out), folder("l/sub")], "is a symbolic link"),
        (vec![symlink("l", &out), file("l/.wh.file")], "is a symbolic link"),
        (vec![symlink("l", &out), file("l/.wh..wh..opq")], "is a symbolic link"),
        (vec![symlink("l", "../witness"), file("l/sub/x")], "is a symbolic link"),
        (vec![symlink("l", "."), file("l/x")], "is a symbolic link"),
        (vec![symlink("l", &out), hard_link("h", "l/file")], "no folder"),
        (vec![symlink("l", &out), hard_link("l/h", "l")], "is a symbolic link"),
        (vec![hard_link("h", &outside_file)], "not in this layer"),
        (vec![hard_link("h", "../witness/file")], "leaves the layer"),
        (vec![hard_link("h", "h")], "to itself"),
        (vec![folder("d"), hard_link("h", "d")], "no file"),
        (vec![hard_link("h", "/")], "to the root"),
        (vec![file(".wh.x"), hard_link("h", "x")], "no file"),
        (vec![file("f"), file("f/x")], "no folder"),
        (vec![file(".wh...")], "whiteout of no name"),
        (vec![file(".")], "the root must be a folder"),
        (vec![symlink("/", "/")], "the root must be a folder"),
        (vec![symlink("l", "")], "to nowhere"),
    ];
    for (lines, reason) in cases {
        let world = World::new();
        let error = world.unpack(&layer(&lines)).unwrap_err().to_string();
        assert!(error.starts_with("entry \"") && error.contains(reason), "{lines:?}: {error}");
    }
}

#[test]
fn absolute_paths_mean_the_layers_root() {
    let world = World::new();
    let inside = format!("{}/file", world.witness());
    world.unpack(&layer(&[file(&inside), file("/etc/hostname")])).unwrap();
    assert!(world.root().join(inside.trim_start_matches('/')).is_file());
    assert!(world.root().join("etc/hostname").is_file());
}

#[test]
fn devices_are_left_out_and_counted() {
    let world = World::new();
    let lines =
        ["dev/null", "./dev/sda", "disk", "srv/dev/null"].map(|path| Line::Device(path.to_owned()));
    let done = world.unpack(&layer(&lines)).unwrap();
    assert_eq!(done.devices_skipped, 4);
    assert_eq!(names(&world.root()), Vec::<String>::new());
}

#[test]
fn deep_trees_can_be_made_and_replaced() {
    let world = World::new();
    let deep = "longer-than-most-names/".repeat(199);
    let done = world
        .unpack(&layer(&[file(&format!("{deep}file")), file("longer-than-most-names")]))
        .unwrap();
    assert_eq!(done.entries, 2);
    assert!(world.root().join("longer-than-most-names").is_file());
}

#[test]
fn entries_are_counted_and_limited() {
    let world = World::new();
    let limits = UnpackLimits { entries_max: 2, ..UnpackLimits::default() };
    let three = layer(&[file("a"), file("b"), file("c")]);
    let error = unpack(&three[..], &world.root(), &limits).map(|(done, _)| done).unwrap_err();
    assert_eq!(error.to_string(), "entry \"c\": the archive has more than 2 entries");
}

#[test]
fn a_payload_that_ends_early_is_an_error() {
    let world = World::new();
    let whole = layer(&[Line::File("big".into(), 0o644, vec![7; 5000])]);
    let error = world.unpack(&whole[..2000]).unwrap_err();
    assert!(
        std::error::Error::source(&error).unwrap().to_string().contains("ends inside"),
        "{error}"
    );
}

fn evil_path() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => Just("a".to_owned()),
        4 => Just("b".to_owned()),
        1 => Just("..".to_owned()),
        1 => Just(".".to_owned()),
        1 => Just(String::new()),
        1 => Just(".wh.a".to_owned()),
        1 => Just(".wh..wh..opq".to_owned()),
        1 => Just("witness".to_owned()),
        1 => Just("file".to_owned()),
    ];
    prop::collection::vec(part, 1..5).prop_map(|parts| parts.join("/"))
}

fn evil_line() -> impl Strategy<Value = Line> {
    let target = prop_oneof![
        evil_path(),
        Just("../witness".to_owned()),
        Just("../witness/file".to_owned()),
        Just("../../witness".to_owned()),
        Just("WITNESS".to_owned()),
        Just("WITNESS/file".to_owned()),
    ];
    prop_oneof![
        evil_path().prop_map(|path| Line::File(path, 0o6777, b"evil".to_vec())),
        evil_path().prop_map(|path| Line::Folder(path, 0o777)),
        (evil_path(), target.clone()).prop_map(|(path, to)| Line::Symlink(path, to)),
        (evil_path(), target).prop_map(|(path, to)| Line::HardLink(path, to)),
        evil_path().prop_map(Line::Fifo),
        evil_path().prop_map(Line::Device),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Any mix of names, links, whiteouts and devices: each line as a layer of its own onto the
    /// same folder, so that one refused line does not protect from the next.
    #[test]
    fn no_sequence_of_entries_changes_the_host(lines in prop::collection::vec(evil_line(), 1..12)) {
        let world = World::new();
        for line in lines {
            let line = match line {
                Line::Symlink(path, to) => Line::Symlink(path, to.replace("WITNESS", &world.witness())),
                Line::HardLink(path, to) => Line::HardLink(path, to.replace("WITNESS", &world.witness())),
                other => other,
            };
            let _ = world.unpack(&layer(&[line]));
        }
        // nothing but whiteouts may be a device, and nothing is owned by the archive outside
        let mut folders = vec![world.root()];
        while let Some(dir) = folders.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                let meta = fs::symlink_metadata(&path).unwrap();
                prop_assert!(!meta.file_type().is_block_device());
                prop_assert!(!meta.file_type().is_char_device() || meta.rdev() == 0);
                if meta.is_dir() {
                    folders.push(path);
                }
            }
        }
    }

    /// Plain trees come out as they went in, against a model.
    #[test]
    fn a_tree_comes_out_as_it_went_in(
        files in prop::collection::btree_map("[a-c](/[a-c]){0,3}", prop::collection::vec(any::<u8>(), 0..700), 0..8)
    ) {
        let world = World::new();
        let free: BTreeMap<&String, &Vec<u8>> = files
            .iter()
            .filter(|(path, _)| !files.keys().any(|other| other.starts_with(&format!("{path}/"))))
            .collect();
        let lines: Vec<Line> =
            free.iter().map(|(path, body)| Line::File((*path).clone(), 0o600, (*body).clone())).collect();
        world.unpack(&layer(&lines)).unwrap();
        for (path, body) in free {
            prop_assert_eq!(&fs::read(world.root().join(path)).unwrap(), body);
        }
    }
}
