//! Which kubeconfig a client command takes when it is not told.
//!
//! ```text
//!   KUBECONFIG, a list of files   those that are there, merged as kubectl does
//!   ~/.kube/config                as a plugin of kubectl only: it means the cluster that kubectl means
//!   <data-dir>/kubeconfig         the engine's
//! ```

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use kube::config::{Kubeconfig, KubeconfigError};

use crate::plugin;

/// What of a process's surroundings says which one.
pub struct KubeconfigSources {
    /// The variable KUBECONFIG.
    pub kubeconfig: Option<OsString>,
    /// kubectl's own file; none unless kubectl has called.
    pub of_kubectl: Option<PathBuf>,
}

impl KubeconfigSources {
    /// As they are.
    pub fn of_this_process() -> Self {
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty() && plugin::is_called());
        Self {
            kubeconfig: std::env::var_os("KUBECONFIG"),
            of_kubectl: home.map(|home| Path::new(&home).join(".kube/config")),
        }
    }
}

impl KubeconfigSources {
    /// That of the variable KUBECONFIG, if it is set.
    ///
    /// # Errors
    /// When it names no file that is there, or one that cannot be read.
    pub fn named(&self) -> anyhow::Result<Option<Kubeconfig>> {
        let listed = self.kubeconfig.iter().flat_map(std::env::split_paths);
        let listed: Vec<PathBuf> = listed.filter(|path| !path.as_os_str().is_empty()).collect();
        if listed.is_empty() { Ok(None) } else { merged(&listed).map(Some) }
    }
}

/// The first that is there.
///
/// # Errors
/// When none is, or one cannot be read. A KUBECONFIG whose files are all missing is not passed by
/// for another cluster.
pub fn find(surroundings: &KubeconfigSources, data_dir: &Path) -> anyhow::Result<Kubeconfig> {
    if let Some(named) = surroundings.named()? {
        return Ok(named);
    }
    let of_kubectl = surroundings.of_kubectl.as_deref().map(read_if_there).transpose()?.flatten();
    match of_kubectl {
        Some(kubeconfig) => Ok(kubeconfig),
        None => read(&data_dir.join("kubeconfig")),
    }
}

/// One that an argument names.
///
/// # Errors
/// When it is not there, or cannot be read.
pub fn read_named(path: &Path) -> anyhow::Result<Kubeconfig> {
    read_if_there(path)?.context("there is no such file")
}

/// One that has to be there.
pub fn read(path: &Path) -> anyhow::Result<Kubeconfig> {
    read_if_there(path)?.with_context(|| {
        format!(
            "there is no {}: start an engine with `rekindle up`, or name another with --data-dir, --kubeconfig or KUBECONFIG",
            path.display()
        )
    })
}

/// client-go passes over files that are missing; of a value that several set, the first counts.
fn merged(paths: &[PathBuf]) -> anyhow::Result<Kubeconfig> {
    let mut merged: Option<Kubeconfig> = None;
    for path in paths {
        let Some(next) = read_if_there(path)? else { continue };
        merged = Some(match merged {
            None => next,
            Some(merged) => {
                merged.merge(next).with_context(|| format!("merge {}", path.display()))?
            }
        });
    }
    let Some(merged) = merged else {
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        bail!("KUBECONFIG names no file that is there: {}", names.join(", "))
    };
    Ok(merged)
}

fn read_if_there(path: &Path) -> anyhow::Result<Option<Kubeconfig>> {
    match Kubeconfig::read_from(path) {
        Ok(kubeconfig) => Ok(Some(kubeconfig)),
        Err(KubeconfigError::ReadConfig(error, _)) if error.kind() == ErrorKind::NotFound => {
            Ok(None)
        }
        Err(error) => Err(error).with_context(|| format!("read {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::write;

    use super::*;

    fn kubeconfig(cluster: &str) -> String {
        format!(
            "{{apiVersion: v1, kind: Config, current-context: {cluster}, clusters: [{{name: {cluster}, cluster: {{server: 'https://{cluster}'}}}}]}}"
        )
    }

    /// The current context and the clusters that are found.
    fn found(kubeconfig: anyhow::Result<Kubeconfig>) -> Result<(String, Vec<String>), String> {
        let found = kubeconfig.map_err(|error| format!("{error:#}"))?;
        let clusters = found.clusters.into_iter().map(|cluster| cluster.name).collect();
        Ok((found.current_context.unwrap_or_default(), clusters))
    }

    #[test]
    fn a_command_takes_the_cluster_that_kubectl_would_and_else_the_engine_s() {
        let dir = tempfile::tempdir().unwrap();
        let (data_dir, path) = (dir.path(), |name: &str| dir.path().join(name));
        for (file, cluster) in
            [("kubeconfig", "engine"), ("home", "kubectl"), ("a", "a"), ("b", "b")]
        {
            write(path(file), kubeconfig(cluster)).unwrap();
        }
        let list = |names: &[&str]| {
            Some(std::env::join_paths(names.iter().map(|name| path(name))).unwrap())
        };
        let some = |context: &str, clusters: &[&str]| {
            Ok((context.to_owned(), clusters.iter().map(|name| (*name).to_owned()).collect()))
        };
        // (KUBECONFIG, kubectl's file, what is found)
        for (kubeconfig, of_kubectl, expected) in [
            (None, None, some("engine", &["engine"])),
            (Some(OsString::new()), None, some("engine", &["engine"])),
            (None, Some("home"), some("kubectl", &["kubectl"])),
            (None, Some("missing"), some("engine", &["engine"])),
            (list(&["a", "b"]), Some("home"), some("a", &["a", "b"])),
            (list(&["missing", "b"]), Some("home"), some("b", &["b"])),
            (list(&["b", "missing"]), None, some("b", &["b"])),
        ] {
            let surroundings = KubeconfigSources { kubeconfig, of_kubectl: of_kubectl.map(path) };
            assert_eq!(found(find(&surroundings, data_dir)), expected, "{of_kubectl:?}");
        }
        let missing =
            KubeconfigSources { kubeconfig: list(&["missing"]), of_kubectl: Some(path("home")) };
        let error = found(find(&missing, data_dir)).unwrap_err();
        assert!(error.starts_with("KUBECONFIG names no file that is there: "), "{error}");
    }

    #[test]
    fn only_where_there_is_none_an_engine_is_advised() {
        let dir = tempfile::tempdir().unwrap();
        let nothing = KubeconfigSources { kubeconfig: None, of_kubectl: None };
        let error = found(find(&nothing, dir.path())).unwrap_err();
        assert!(error.contains("rekindle up"), "{error}");
        write(dir.path().join("kubeconfig"), "{").unwrap();
        let error = found(find(&nothing, dir.path())).unwrap_err();
        assert!(error.starts_with("read ") && !error.contains("rekindle up"), "{error}");
        // who may not look into the folder does not know whether there is one
        let through_a_file = dir.path().join("kubeconfig/inside");
        let error = found(read(&through_a_file)).unwrap_err();
        assert!(!error.contains("rekindle up"), "{error}");
    }
}
