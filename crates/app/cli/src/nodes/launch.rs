//! Starts agents: those that do not run, and those that run with other settings than they should.

use std::process::Command;

use anyhow::Context;
use rekindle_api_server::pki::{
    CERTIFICATE_LIFETIME, CertificateAuthority, Kubeconfig, RevokedCertificates,
};
use rekindle_types::Tick;
use rustix::process::Signal;

use super::file::{CommonNodeSettings, NodeFile};
use super::folder::{FurtherNode, NodesFolder};
use super::removal::take_folder_away;
use crate::background::{self, BackgroundProcess};
use crate::engine::data_dir::PKI;

/// Starts all agents of the folder, and as many more as there have to be; returns when all of them
/// have reported.
///
/// # Errors
/// Of the first that could not be started.
pub fn launch_all(
    folder: &NodesFolder,
    common: &CommonNodeSettings,
    at_least: usize,
    pki: &CertificateAuthority,
    now: Tick,
) -> anyhow::Result<()> {
    let mut nodes = folder.list()?;
    while nodes.len() < at_least {
        nodes.push(folder.add(None, common, now)?);
    }
    // all begin before the first is waited for
    let starting: Vec<(String, Option<BackgroundProcess>)> = nodes
        .into_iter()
        .map(|node| {
            let name = node.file.name.clone();
            let starting = begin(node, common, pki, now);
            Ok((name.clone(), starting.with_context(|| format!("start node {name}"))?))
        })
        .collect::<anyhow::Result<_>>()?;
    for (name, starting) in starting {
        if let Some(starting) = starting {
            let child = starting.wait().with_context(|| format!("start node {name}"))?;
            background::reap(format!("agent of node {name}"), child)?;
        }
    }
    Ok(())
}

/// Of all agents that run, starts those again that need another certificate: it ends soon or is
/// revoked. Their pods go on.
///
/// # Errors
/// Of the first that could not be started.
pub fn renew_all(
    folder: &NodesFolder,
    common: &CommonNodeSettings,
    pki: &CertificateAuthority,
    now: Tick,
) -> anyhow::Result<()> {
    for node in folder.list()? {
        if node.agent()?.is_none() {
            continue;
        }
        let name = node.file.name.clone();
        let renew = || match begin(node, common, pki, now)? {
            Some(starting) => background::reap(format!("agent of node {name}"), starting.wait()?),
            None => Ok(()),
        };
        renew().with_context(|| format!("renew the certificate of node {name}"))?;
    }
    Ok(())
}

/// Adds a node, starts its agent, and answers its name when that has reported. One that cannot be
/// started is taken away again.
pub fn launch_one_more(
    folder: &NodesFolder,
    common: &CommonNodeSettings,
    pki: &CertificateAuthority,
    now: Tick,
) -> anyhow::Result<String> {
    let node = folder.add(None, common, now)?;
    let name = node.file.name.clone();
    let started = begin(node.clone(), common, pki, now).and_then(|starting| match starting {
        Some(starting) => background::reap(format!("agent of node {name}"), starting.wait()?),
        None => Ok(()),
    });
    if let Err(error) = started {
        // told, and no more: the answer is why the node did not start
        if let Err(left) = take_back(&node) {
            tracing::warn!(node = name, "failed to remove a node that did not start: {left:#}");
        }
        return Err(error.context(format!("start node {name}")));
    }
    Ok(name)
}

/// Takes a node away that did not start. Where its agent runs all the same it is ended first: its
/// folder is what it runs on.
///
/// # Errors
/// When it cannot be ended, or its folder not be taken away.
pub fn take_back(node: &FurtherNode) -> anyhow::Result<()> {
    if let Some(agent) = node.agent()? {
        agent.signal(Signal::TERM)?;
        agent.wait()?;
    }
    take_folder_away(node)
}

/// Starts a node's agent; `None` when one runs that does as it should.
pub fn begin(
    node: FurtherNode,
    common: &CommonNodeSettings,
    pki: &CertificateAuthority,
    now: Tick,
) -> anyhow::Result<Option<BackgroundProcess>> {
    let revoked = RevokedCertificates::open(&common.engine_dir.join(PKI))?;
    if let Some(agent) = node.agent()? {
        if node.file.serves(common, &revoked, now) {
            return Ok(None);
        }
        agent.signal(Signal::QUIT)?;
        agent.wait()?;
    }
    let user = node.file.user();
    let begin = revoked.good_again(&user.name, now);
    std::thread::sleep(begin.since(now).to_std());
    let issued =
        pki.client(&user, CERTIFICATE_LIFETIME, begin).context("issue the node's certificate")?;
    let file = NodeFile { common: common.clone(), certified_at: begin, ..node.file };
    let path = node.path.join(KUBECONFIG);
    Kubeconfig {
        server: &format!("https://{}", common.api_of_the_node),
        ca_pem: pki.ca_pem(),
        context: &file.name,
        namespace: None,
        user: &user.name,
        certificate: &issued,
    }
    .write(&path)
    .with_context(|| format!("write {}", path.display()))?;
    file.keep(&node.path)?;
    let mut command: Command = background::this_program()?;
    command.arg("node-agent").arg(&node.path);
    background::start("node agent", command, &node.path.join("agent.log")).map(Some)
}

/// The file in a node's folder by which its agent reaches the API.
pub(super) const KUBECONFIG: &str = "kubeconfig";
