//! `rekindle crds`: our kinds as CustomResourceDefinitions, from the schemas that the engine itself
//! serves.

use std::process::ExitCode;

use anyhow::Context;
use rekindle_kinds::openapi;
use rekindle_types::v1alpha1::GROUP;

use crate::output;

/// The first lines of the text.
const HEAD: &str = "# RestartLadder, PodRestart and RestartLedger for a cluster. Made by `rekindle crds`; not to be edited.\n";

/// Carries the command out.
pub fn run() -> anyhow::Result<ExitCode> {
    output::print(&text()?)?;
    Ok(ExitCode::SUCCESS)
}

fn text() -> anyhow::Result<String> {
    let definitions = openapi::crd::definitions(&rekindle_kinds::all(), GROUP);
    let yaml = rekindle_manifest::yaml(&definitions).context("write the definitions")?;
    Ok(format!("{HEAD}{yaml}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file that people apply to a cluster.
    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../deploy/crds.yaml");

    #[test]
    fn the_file_for_clusters_is_what_the_engine_serves() {
        let text = text().unwrap();
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(FILE, &text).unwrap();
        }
        let kept = std::fs::read_to_string(FILE).unwrap();
        assert!(kept == text, "deploy/crds.yaml is old: rekindle crds > deploy/crds.yaml");
    }

    #[test]
    fn what_is_printed_reads_back_as_what_was_meant() {
        let definitions = openapi::crd::definitions(&rekindle_kinds::all(), GROUP);
        let read = rekindle_manifest::objects(&text().unwrap()).unwrap();
        let read: Vec<serde_json::Value> = read.into_iter().map(Into::into).collect();
        assert_eq!(read, definitions);
    }
}
