//! Real layers, seen through a real overlay, which takes root.

use std::process::Command;

use super::super::unpack::{self, UnpackLimits};
use super::*;

/// One entry of a layer: a path, which ends with a slash for a folder, its mode and owner.
type Line = (&'static str, u32, u32);

fn archive(lines: &[Line]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, mode, owner) in lines {
        let mut header = tar::Header::new_gnu();
        let kind = match path.ends_with('/') {
            true => tar::EntryType::Directory,
            false => tar::EntryType::Regular,
        };
        header.set_entry_type(kind);
        header.set_size(0);
        header.set_mode(*mode);
        header.set_uid((*owner).into());
        header.set_gid((*owner).into());
        builder.append_data(&mut header, path, &[][..]).unwrap();
    }
    builder.into_inner().unwrap()
}

struct Image {
    dir: tempfile::TempDir,
    /// Top first.
    layers: Vec<StackedLayer>,
}

impl Image {
    /// Of these layers, bottom first.
    fn new(layers: &[&[Line]]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut stacked = Vec::new();
        for (number, lines) in layers.iter().enumerate() {
            let root = dir.path().join(number.to_string());
            fs::create_dir(&root).unwrap();
            let (done, _) =
                unpack::unpack(&archive(lines)[..], &root, &UnpackLimits::default()).unwrap();
            stacked.insert(0, StackedLayer { root, implied: done.implied });
        }
        Self { dir, layers: stacked }
    }

    /// Mode and owner of a path, as a container sees it, or nothing.
    fn seen(&self, path: &str) -> Option<(u32, u32)> {
        let folders = FolderTree::missing(&self.layers).unwrap();
        let (top, at) = (self.dir.path().join("top"), self.dir.path().join("at"));
        for new in [&top, &at] {
            let _ = fs::remove_dir_all(new);
            fs::create_dir(new).unwrap();
        }
        folders.make(&top).unwrap();
        let roots = self.layers.iter().map(|layer| layer.root.clone());
        let lower: Vec<String> =
            [top].into_iter().chain(roots).map(|dir| dir.display().to_string()).collect();
        let options = format!("lowerdir={}", lower.join(":"));
        let mut mount = Command::new("mount");
        mount.args(["-t", "overlay", "overlay", "-o", &options]).arg(&at);
        assert!(mount.status().unwrap().success(), "{options}");
        let found = fs::symlink_metadata(at.join(path)).ok();
        assert!(Command::new("umount").arg(&at).status().unwrap().success());
        found.map(|found| (found.mode() & 0o7777, found.uid()))
    }
}

const BASE: &[Line] =
    &[("tmp/", 0o1777, 0), ("home/", 0o755, 0), ("home/me/", 0o700, 1000), ("srv/", 0o750, 5)];

#[test]
fn a_folder_that_a_layer_only_implies_looks_as_the_layer_beneath_says() {
    let image = Image::new(&[BASE, &[("tmp/x", 0o644, 0), ("home/me/.profile", 0o600, 1000)]]);
    for (path, expected) in [
        ("tmp", Some((0o1777, 0))),
        ("tmp/x", Some((0o644, 0))),
        ("home", Some((0o755, 0))),
        ("home/me", Some((0o700, 1000))),
        ("srv", Some((0o750, 5))),
        ("none", None),
    ] {
        assert_eq!(image.seen(path), expected, "{path}");
    }
}

#[test]
fn what_a_layer_says_itself_or_hides_stays() {
    let of = |layers: &[&[Line]], path: &str| {
        let mut all = vec![BASE];
        all.extend(layers);
        Image::new(&all).seen(path)
    };
    type Case<'a> = (&'a str, &'a [&'a [Line]], &'a str, Option<(u32, u32)>);
    let cases: [Case<'_>; 8] = [
        ("said before", &[&[("tmp/", 0o700, 7), ("tmp/x", 0o644, 0)]], "tmp", Some((0o700, 7))),
        ("said after", &[&[("tmp/x", 0o644, 0), ("tmp/", 0o700, 7)]], "tmp", Some((0o700, 7))),
        ("said above", &[&[("tmp/x", 0o644, 0)], &[("tmp/", 0o755, 0)]], "tmp", Some((0o755, 0))),
        (
            "implied twice",
            &[&[("srv/x", 0o644, 0)], &[("srv/y", 0o644, 0)]],
            "srv",
            Some((0o750, 5)),
        ),
        ("gone above", &[&[("srv/x", 0o644, 0)], &[(".wh.srv", 0o644, 0)]], "srv", None),
        ("gone and new", &[&[(".wh.srv", 0o644, 0), ("srv/x", 0o644, 0)]], "srv", Some((0o755, 0))),
        ("new", &[&[("opt/a/b", 0o644, 0)]], "opt/a", Some((0o755, 0))),
        (
            "above a hidden one",
            &[&[("home/me/x", 0o644, 0)], &[("home/.wh..wh..opq", 0o644, 0)]],
            "home/me",
            None,
        ),
    ];
    for (what, layers, path, expected) in cases {
        assert_eq!(of(layers, path), expected, "{what}");
    }
}

#[test]
fn an_image_whose_layers_say_all_needs_no_further_one() {
    let whole = Image::new(&[BASE, &[("tmp/", 0o1777, 0), ("tmp/x", 0o644, 0)]]);
    assert!(FolderTree::missing(&whole.layers).unwrap().is_empty());
    let usual = Image::new(&[&[("usr/", 0o755, 0)], &[("usr/bin/x", 0o755, 0)]]);
    assert!(FolderTree::missing(&usual.layers).unwrap().is_empty(), "it looks as it should");
    let missing = |lines: &[Line]| FolderTree::missing(&Image::new(&[BASE, lines]).layers).unwrap();
    let (one, other) = (missing(&[("tmp/x", 0o644, 0)]), missing(&[("tmp/y", 0o644, 0)]));
    assert_eq!(one.digest(), other.digest(), "shared");
    assert_ne!(one.digest(), missing(&[("srv/y", 0o644, 0)]).digest());
}
