//! How client commands reach the API.

use std::path::Path;

use anyhow::Context;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::args::ApiAccess;
use crate::kubeconfig::{self, KubeconfigSources};
use crate::target::Lookup;

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
    client_of(kubeconfig::find(&KubeconfigSources::of_this_process(), data_dir)?).await
}

/// A client for what this kubeconfig names.
pub async fn connect_with(path: &Path) -> anyhow::Result<Client> {
    client_of(kubeconfig::read(path)?).await
}

async fn client_of(kubeconfig: Kubeconfig) -> anyhow::Result<Client> {
    let config = config_of(kubeconfig, &KubeConfigOptions::default()).await?;
    Client::try_from(config).context("connect to the API")
}

/// A disruption budget says no with 429, which is an answer: the client does not ask again by
/// itself.
async fn config_of(
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
