//! `restore-unfinished`: lies in a data directory while a restore changes it. Left there, it says
//! that the keys may be those of the backup and the store that of before, or the other way round.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rekindle_api_server::pki::{sync_folder_of, write_private};

use super::data_dir::DataDir;

/// The file in the data directory.
const FILE: &str = "restore-unfinished";

/// A file that a restore replaces, and where it is kept.
#[derive(Clone, Debug)]
pub struct KeptFile {
    pub file: PathBuf,
    pub aside: PathBuf,
}

/// Marks the data directory, durably, with where the files will be that are replaced.
pub fn begin(data_dir: &DataDir, kept: &[KeptFile]) -> anyhow::Result<()> {
    let path = data_dir.join(FILE);
    let mut text = match std::fs::read_to_string(&path) {
        // of an earlier try, which knows where the first files are
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            "A restore changes this data directory. Left here, it was interrupted.\n".to_owned()
        }
        Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
    };
    for KeptFile { file, aside } in kept {
        text += &format!("{} is kept as {}\n", file.display(), aside.display());
    }
    write_private(&path, text.as_bytes()).with_context(|| format!("write {}", path.display()))
}

/// The restore is whole and durable.
pub fn end(data_dir: &DataDir) -> anyhow::Result<()> {
    let path = data_dir.join(FILE);
    std::fs::remove_file(&path)
        .and_then(|()| sync_folder_of(&path))
        .with_context(|| format!("remove {}", path.display()))
}

/// Refuses a data directory in which a restore did not end.
pub fn refuse(data_dir: &Path) -> anyhow::Result<()> {
    let path = data_dir.join(FILE);
    if path.try_exists().with_context(|| format!("look for {}", path.display()))? {
        bail!(
            "a restore into data directory {} was interrupted: repeat it with `rekindle restore FILE --force`. To go back \
             instead, put the files back that {} names, and remove it",
            data_dir.display(),
            path.display()
        );
    }
    Ok(())
}
