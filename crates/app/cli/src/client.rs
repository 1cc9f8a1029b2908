//! How client commands reach the API.

use std::path::Path;

use anyhow::{Context, bail};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::args::ApiAccess;
use crate::kubeconfig::{self, KubeconfigSources};
use crate::target::Lookup;

/// Where a pod finds the name of its namespace.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// A client, and the namespace that the command is about, as these arguments say.
pub async fn connect_to(access: &ApiAccess) -> anyhow::Result<Lookup> {
    let kubeconfig = match &access.kubeconfig {
        Some(path) => kubeconfig::read(path)?,
        None => kubeconfig::find(&KubeconfigSources::of_this_process(), &access.data_dir.data_dir)?,
    };
    let options = KubeConfigOptions { context: access.context.clone(), ..Default::default() };
    let config = config_of(kubeconfig, &options).await?;
    let namespace = access.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config).context("connect to the API")?;
    Ok(Lookup { client, namespace })
}

/// A client for the engine of this data directory, or for the cluster that KUBECONFIG names.
pub async fn connect(data_dir: &Path) -> anyhow::Result<Client> {
    client_of(kubeconfig::find(&KubeconfigSources::of_this_process(), data_dir)?, None).await
}

/// A client for what this kubeconfig names.
pub async fn connect_with(path: &Path) -> anyhow::Result<Client> {
    client_of(kubeconfig::read(path)?, None).await
}

/// The same in this context of it.
pub async fn connect_with_context(path: &Path, context: Option<String>) -> anyhow::Result<Client> {
    client_of(kubeconfig::read(path)?, context).await
}

async fn client_of(kubeconfig: Kubeconfig, context: Option<String>) -> anyhow::Result<Client> {
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let config = config_of(kubeconfig, &options).await?;
    Client::try_from(config).context("connect to the API")
}

/// Whether an API of this version is an engine of ours, by the `gitVersion` that it reports.
pub fn is_engine(git_version: &str) -> bool {
    git_version.contains("rekindle")
}

/// How an operator reaches its cluster: by a kubeconfig that is named, or by the account of the pod
/// that it runs in. It never guesses: it would restart pods of another cluster.
pub async fn operator_config(
    kubeconfig: Option<&Path>,
    context: Option<String>,
) -> anyhow::Result<kube::Config> {
    let sources = KubeconfigSources::of_this_process();
    match operator_kubeconfig(kubeconfig, context.as_deref(), &sources)? {
        Some(kubeconfig) => {
            config_of(kubeconfig, &KubeConfigOptions { context, ..Default::default() }).await
        }
        None => {
            let mut config = kube::Config::incluster().context(
                "neither --kubeconfig nor KUBECONFIG names a cluster, and this is no pod of one",
            )?;
            config.default_retry = false;
            Ok(config)
        }
    }
}

/// The kubeconfig of an operator; none where the account of its pod is to be used. KUBECONFIG is
/// not looked at where a flag names another one.
fn operator_kubeconfig(
    path: Option<&Path>,
    context: Option<&str>,
    sources: &KubeconfigSources,
) -> anyhow::Result<Option<Kubeconfig>> {
    let named = match path {
        Some(path) => Some(kubeconfig::read(path)?),
        None => sources.named()?,
    };
    if let (None, Some(context)) = (&named, context) {
        bail!(
            "--context {context}: neither --kubeconfig nor KUBECONFIG names a kubeconfig that has it"
        );
    }
    Ok(named)
}

/// The namespace of the pod that this process runs in.
pub fn own_namespace() -> Option<String> {
    let namespace = std::fs::read_to_string(NAMESPACE_FILE).ok()?;
    Some(namespace.trim().to_owned()).filter(|namespace| !namespace.is_empty())
}

/// A disruption budget says no with 429, which is an answer: the client does not ask again by
/// itself.
pub async fn config_of(
    kubeconfig: Kubeconfig,
    options: &KubeConfigOptions,
) -> anyhow::Result<kube::Config> {
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, options)
        .await
        .context("use the kubeconfig")?;
    config.default_retry = false;
    Ok(config)
}

/// Runs a client command's future to its end on this thread.
pub fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the event loop")?
        .block_on(future)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_takes_the_kubeconfig_of_its_flags_before_any_other() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = dir.path().join(name);
            let text = format!("{{apiVersion: v1, kind: Config, current-context: {name}}}");
            std::fs::write(&path, text).unwrap();
            path
        };
        let (flag, variable) = (file("flag"), file("variable"));
        let missing = dir.path().join("missing");
        let found = |path: Option<&Path>, context: Option<&str>, variable: Option<&Path>| {
            let kubeconfig = variable.map(|path| path.as_os_str().to_owned());
            let sources = KubeconfigSources { kubeconfig, of_kubectl: None };
            let found = operator_kubeconfig(path, context, &sources);
            found
                .map(|found| found.and_then(|found| found.current_context))
                .map_err(|e| e.to_string())
        };
        let is = |name: &str| Ok(Some(name.to_owned()));
        assert_eq!(found(Some(&flag), None, Some(&variable)), is("flag"));
        assert_eq!(found(Some(&flag), None, Some(&missing)), is("flag"), "it is not looked at");
        assert_eq!(found(None, Some("other"), Some(&variable)), is("variable"));
        assert_eq!(found(None, None, None), Ok(None), "the account of the pod");
        let error = found(None, Some("prod"), None).unwrap_err();
        assert!(error.contains("--context prod"), "a pod's account has no contexts: {error}");
    }
}
