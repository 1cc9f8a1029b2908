//! The binary as a kubectl plugin: kubectl runs a program `kubectl-NAME` on the PATH for `kubectl
//! NAME …`, so a link of that name to this binary makes a subcommand of kubectl of one of ours.

use std::ffi::OsString;
use std::path::Path;

/// The names of the links, and the subcommands that they stand for.
pub const PLUGINS: [(&str, &str); 2] = [("kubectl-restart", "restart"), ("kubectl-why", "why")];

/// The name of the link that stands for the program itself: `kubectl rekindle report`. It is of use
/// on a cluster; an engine does not ask for it.
const PROGRAM: &str = "kubectl-rekindle";

/// How to make kubectl know them, in one short line; none when it does already.
pub fn hint() -> Option<String> {
    let path = std::env::var_os("PATH")?;
    let missing: Vec<&str> = PLUGINS
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| !std::env::split_paths(&path).any(|folder| folder.join(name).exists()))
        .collect();
    (!missing.is_empty()).then(|| how_to_link(&missing))
}

fn how_to_link(names: &[&str]) -> String {
    format!("link {} to this binary", names.join(" and "))
}

/// Whether this process was called as one.
pub fn is_called() -> bool {
    std::env::args_os().next().is_some_and(|called| {
        let called = Path::new(&called);
        is_program(called) || subcommand(called).is_some()
    })
}

fn is_program(called: &Path) -> bool {
    called.file_name().is_some_and(|called| called == PROGRAM)
}

/// The subcommand that a program of this name stands for.
fn subcommand(called: &Path) -> Option<&'static str> {
    let called = called.file_name()?;
    PLUGINS.iter().find(|(name, _)| called == *name).map(|(_, subcommand)| *subcommand)
}

/// The arguments as if `rekindle` had been called, whatever the name it was called by.
pub fn arguments(given: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = given.into_iter().collect();
    let called = arguments.first().map(Path::new);
    if called.is_some_and(is_program) {
        arguments[0] = "rekindle".into();
    } else if let Some(subcommand) = called.and_then(subcommand) {
        arguments[0] = "rekindle".into();
        arguments.insert(1, subcommand.into());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_fits_into_a_line_of_a_terminal() {
        let hint = how_to_link(&PLUGINS.map(|(name, _)| name));
        assert_eq!(hint, "link kubectl-restart and kubectl-why to this binary");
        assert!("plugins    ".len() + hint.len() <= 80);
    }

    #[test]
    fn a_plugins_name_is_its_subcommand() {
        for (given, taken) in [
            (
                vec!["/usr/local/bin/kubectl-restart", "pod/a", "-n", "b"],
                vec!["rekindle", "restart", "pod/a", "-n", "b"],
            ),
            (vec!["kubectl-why", "pod/a"], vec!["rekindle", "why", "pod/a"]),
            (vec!["kubectl-rekindle", "report"], vec!["rekindle", "report"]),
            (vec!["./rekindle", "why", "pod/a"], vec!["./rekindle", "why", "pod/a"]),
            (vec![], vec![]),
        ] {
            assert_eq!(arguments(given.into_iter().map(OsString::from)), taken);
        }
    }
}
