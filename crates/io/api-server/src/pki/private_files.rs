//! Files and folders that only their owner can read.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::PkiError;

/// Replaces a file by one with mode 0600 and this content; durable when it returns.
///
/// # Errors
/// When the file or its folder cannot be written. What is there then is whole: the old file, or
/// the new one, which may not be durable.
pub fn write_private(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut staged = path.as_os_str().to_owned();
    staged.push(format!(".{}.new", std::process::id()));
    let write = || {
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&staged)?;
        file.write_all(content)?;
        file.sync_all()?;
        std::fs::rename(&staged, path)?;
        sync_folder_of(path)
    };
    write().inspect_err(|_| {
        // Best effort: the error that is returned matters, not a left-over that could not be
        // removed either.
        let _ = std::fs::remove_file(&staged);
    })
}

/// Makes the name of a file durable.
///
/// # Errors
/// When its folder cannot be synced.
pub fn sync_folder_of(file: &Path) -> std::io::Result<()> {
    std::fs::File::open(folder_of(file))?.sync_all()
}

/// The folder that a file lies in.
pub fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    }
}

pub(super) fn make_private_folder(folder: &Path) -> Result<(), PkiError> {
    let failed = |source| PkiError::Folder { path: folder.to_owned(), source };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).map_err(failed)
}

pub(super) fn read_if_there(path: &Path) -> Result<Option<String>, PkiError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(PkiError::Read { path: path.to_owned(), source }),
    }
}
