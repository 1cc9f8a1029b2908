//! Files that a restore replaces, kept under second names beside the new ones.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rekindle_api_server::pki::{folder_of, sync_folder_of};
use rekindle_types::Tick;
use tempfile::TempPath;

use crate::engine::unfinished_restore::ReplacedFile;

/// Keeps each file that is there, durably; the first names stay. If one cannot be kept, all second
/// names are removed again.
pub fn keep_aside(files: Vec<PathBuf>, now: Tick) -> anyhow::Result<Vec<ReplacedFile>> {
    let replaced = with_free_names(files, now);
    let mut made = Vec::new();
    for ReplacedFile { file, aside } in &replaced {
        let Some(aside) = aside else { continue };
        let keeping = || format!("keep {} as {}", file.display(), aside.display());
        made.push(TempPath::try_from_path(aside).with_context(keeping)?);
        keep(file, aside).with_context(keeping)?;
    }
    for aside in made {
        aside.keep().context("keep a second name")?;
    }
    Ok(replaced)
}

/// Names for what is there, with one suffix that is free for all.
fn with_free_names(files: Vec<PathBuf>, now: Tick) -> Vec<ReplacedFile> {
    let time = now.to_time().0.strftime("%Y%m%dT%H%M%SZ").to_string();
    let named = |number: usize| {
        let suffix = match number {
            1 => format!(".before-restore-{time}"),
            number => format!(".before-restore-{time}-{number}"),
        };
        let replaced = |file: &PathBuf| {
            let mut aside = file.clone().into_os_string();
            aside.push(&suffix);
            let aside = file.exists().then(|| aside.into());
            ReplacedFile { file: file.clone(), aside }
        };
        files.iter().map(replaced).collect::<Vec<ReplacedFile>>()
    };
    let is_taken = |replaced: &ReplacedFile| {
        replaced.aside.as_ref().is_some_and(|aside| aside.symlink_metadata().is_ok())
    };
    let mut number = 1;
    loop {
        let replaced = named(number);
        if !replaced.iter().any(is_taken) {
            return replaced;
        }
        number += 1;
    }
}

/// A second name for the file, or a copy where it cannot have one, as on some file systems.
fn keep(file: &Path, aside: &Path) -> io::Result<()> {
    if std::fs::hard_link(file, aside).is_err() {
        copy(file, aside)?;
    }
    sync_folder_of(aside)
}

/// A private copy, which gets its name when all of it is on the disk.
fn copy(file: &Path, copy: &Path) -> io::Result<()> {
    let mut from = File::open(file)?;
    let mut staged =
        tempfile::Builder::new().prefix(".rekindle-restore-").tempfile_in(folder_of(copy))?;
    io::copy(&mut from, staged.as_file_mut())?;
    staged.as_file().sync_all()?;
    staged.persist(copy).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::test_folder::names_in;
    use super::*;

    #[test]
    fn what_is_kept_gets_a_name_that_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let [store, key, absent] =
            ["store.redb", "ca.key", "service-cidr"].map(|name| folder.path().join(name));
        std::fs::write(&store, "store").unwrap();
        std::fs::write(&key, "key").unwrap();
        let now = Tick::from_secs(1_795_000_000);
        for end in ["Z", "Z-2", "Z-3"] {
            let kept = keep_aside(vec![store.clone(), key.clone(), absent.clone()], now).unwrap();
            assert_eq!(kept[2], ReplacedFile { file: absent.clone(), aside: None });
            let asides: Vec<_> = kept.iter().filter_map(|kept| kept.aside.as_ref()).collect();
            let contents: Vec<_> =
                asides.iter().map(|aside| std::fs::read_to_string(aside).unwrap()).collect();
            assert_eq!(contents, ["store", "key"]);
            assert!(asides.iter().all(|aside| aside.to_str().unwrap().ends_with(end)), "{kept:?}");
            // a name of one of them that is taken is enough
            std::fs::remove_file(asides[0]).unwrap();
        }
    }

    #[test]
    fn what_cannot_be_kept_as_a_whole_leaves_no_second_name() {
        let folder = tempfile::tempdir().unwrap();
        let [store, key] = ["store.redb", "ca.key"].map(|name| folder.path().join(name));
        std::fs::write(&store, "store").unwrap();
        std::fs::create_dir(&key).unwrap();
        let before = names_in(folder.path());
        let refused = keep_aside(vec![store, key.clone()], Tick::from_secs(1_795_000_000));
        let error = refused.unwrap_err().to_string();
        assert!(error.starts_with(&format!("keep {} as ", key.display())), "{error}");
        assert_eq!(names_in(folder.path()), before);
    }
}
