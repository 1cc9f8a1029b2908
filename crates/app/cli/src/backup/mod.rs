//! Backups: where their objects and keys come from, the file they are, and what a restore makes of
//! it. The format is the store's ([`rekindle_store::backup`]).

pub mod content;
pub mod engine_keys;
pub mod kept_files;
pub mod restore;
pub mod sources;
pub mod target;

use std::path::Path;

/// Looks at a store without printing panics: those of redb become errors, which are reported.
pub fn look_quietly<T>(look: impl FnOnce() -> T) -> T {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let found = look();
    std::panic::set_hook(hook);
    found
}

/// Standard output, or standard input.
pub fn is_standard_stream(file: &Path) -> bool {
    file == Path::new("-")
}

#[cfg(test)]
mod test_folder {
    use std::path::Path;

    /// The names of what lies in a folder, ascending.
    pub fn names_in(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}
