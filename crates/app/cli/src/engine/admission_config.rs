//! The file of `--admission-control-config-file`: kube-apiserver's AdmissionConfiguration. The one
//! plugin that it can configure here is PodSecurity.

use std::path::Path;

use anyhow::Context;
use rekindle_api::PodSecurityConfiguration;
use serde::Deserialize;
use serde_json::Value;

use crate::manifests;

/// The versions of the file, with the same fields.
const API_VERSIONS: [&str; 2] = ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1alpha1"];
const KIND: &str = "AdmissionConfiguration";
const PLUGIN: &str = "PodSecurity";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AdmissionConfiguration {
    api_version: String,
    kind: String,
    #[serde(default)]
    plugins: Vec<PluginConfiguration>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PluginConfiguration {
    name: String,
    /// A further file, from the folder of this one.
    #[serde(default)]
    path: String,
    configuration: Option<Value>,
}

/// Reads it.
///
/// # Errors
/// When it cannot be read, or when anything in it is not known or not allowed.
pub fn read(file: Option<&Path>) -> anyhow::Result<PodSecurityConfiguration> {
    let Some(file) = file else { return Ok(PodSecurityConfiguration::default()) };
    let context = || format!("read the admission configuration {}", file.display());
    let document = manifests::read_document(file).with_context(context)?;
    let document = Value::Object(document.unwrap_or_default());
    plugins(file, document).with_context(context)
}

fn plugins(file: &Path, document: Value) -> anyhow::Result<PodSecurityConfiguration> {
    let written: AdmissionConfiguration = serde_json::from_value(document)?;
    let AdmissionConfiguration { api_version, kind, plugins } = written;
    anyhow::ensure!(
        kind == KIND && API_VERSIONS.contains(&api_version.as_str()),
        "apiVersion {api_version:?}, kind {kind:?}: must be {KIND} of one of {}",
        API_VERSIONS.join(", ")
    );
    let mut found = None;
    for (index, plugin) in plugins.into_iter().enumerate() {
        let field = format!("plugins[{index}]");
        let name = &plugin.name;
        anyhow::ensure!(
            name == PLUGIN,
            "{field}.name: Unsupported value: {name:?}: supported values: {PLUGIN:?}"
        );
        anyhow::ensure!(found.is_none(), "{field}.name: Duplicate value: {name:?}");
        found = Some(plugin_configuration(file, plugin).context(field)?);
    }
    Ok(found.unwrap_or_default())
}

fn plugin_configuration(
    file: &Path,
    plugin: PluginConfiguration,
) -> anyhow::Result<PodSecurityConfiguration> {
    let configuration = match (plugin.configuration, plugin.path.as_str()) {
        (Some(configuration), "") => configuration,
        (None, "") => anyhow::bail!("configuration: Required value: or give its file as path"),
        (Some(_), _) => anyhow::bail!("path: Forbidden: may not be set beside configuration"),
        (None, path) => {
            let path = file.parent().unwrap_or(Path::new("")).join(path);
            let document = manifests::read_document(&path);
            let document = document.with_context(|| format!("path {}", path.display()))?;
            Value::Object(document.unwrap_or_default())
        }
    };
    PodSecurityConfiguration::from_value(configuration).context("configuration")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read from these files, of which the first is given.
    fn read_files(files: &[(&str, &str)]) -> Result<PodSecurityConfiguration, String> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let first = dir.path().join(files[0].0);
        read(Some(&first)).map_err(|error| format!("{error:#}"))
    }

    const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n";
    const OF_PODS: &str = "{apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, defaults: {enforce: baseline}}";

    #[test]
    fn the_configuration_is_in_the_file_or_in_a_further_one() {
        let inline = format!("{HEAD}plugins: [{{name: PodSecurity, configuration: {OF_PODS}}}]");
        let by_path = format!("{HEAD}plugins: [{{name: PodSecurity, path: pods.yaml}}]");
        let inline = read_files(&[("a.yaml", &inline)]).unwrap();
        assert_ne!(inline, PodSecurityConfiguration::default());
        assert_eq!(read_files(&[("a.yaml", &by_path), ("pods.yaml", OF_PODS)]), Ok(inline));
        assert_eq!(read_files(&[("a.yaml", HEAD)]), Ok(PodSecurityConfiguration::default()));
        assert_eq!(read(None).unwrap(), PodSecurityConfiguration::default());
    }

    #[test]
    fn what_is_wrong_with_it_is_told_with_file_and_field() {
        let wrong = OF_PODS.replace("baseline", "strict");
        for (text, expected) in [
            (String::new(), "missing field `apiVersion`"),
            ("kind: Pod\napiVersion: v1".to_owned(), "must be AdmissionConfiguration of one of"),
            (format!("{HEAD}plugin: []"), "unknown field `plugin`"),
            (
                format!("{HEAD}plugins: [{{name: ImagePolicyWebhook, path: x}}]"),
                "plugins[0].name: Unsupported value: \"ImagePolicyWebhook\": supported values: \"PodSecurity\"",
            ),
            (
                format!("{HEAD}plugins: [{{name: PodSecurity}}]"),
                "plugins[0]: configuration: Required value",
            ),
            (format!("{HEAD}plugins: [{{name: PodSecurity, path: none.yaml}}]"), "none.yaml"),
            (
                format!("{HEAD}plugins: [{{name: PodSecurity, configuration: {wrong}}}]"),
                "plugins[0]: configuration: defaults.enforce: Invalid value: \"strict\": must be one of privileged, baseline, restricted",
            ),
        ] {
            let error = read_files(&[("a.yaml", &text)]).unwrap_err();
            assert!(error.contains(expected) && error.contains("a.yaml"), "{text}: {error}");
        }
    }
}
