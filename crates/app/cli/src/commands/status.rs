//! `rekindle status`: the engine, its node, and every pod with its place on the ladder.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use rekindle_api_server::SystemClock;
use rekindle_types::nodes;
use rekindle_types::v1alpha1::RestartLedger;

use crate::args::StatusArgs;

use crate::live::Board;
use crate::{client, live, output};

/// How long the engine may take to answer before it is called unreachable.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Carries the command out. Exit code 1 when the engine does not answer or a node is not ready.
pub fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    client::block_on(async {
        let client = client::connect(&args.data_dir.data_dir).await?;
        let version = tokio::time::timeout(ANSWER_WITHIN, client.apiserver_version())
            .await
            .context("the engine does not answer")?
            .context("the engine does not answer; start it with `rekindle up`")?;
        let mut text = format!("engine  {} answers\n", version.git_version);
        let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?;
        let mut exit = ExitCode::SUCCESS;
        for node in &nodes {
            let ready = nodes::is_ready(node);
            text += &format!(
                "node    {} {}\n",
                node.name_any(),
                if ready { "Ready" } else { "NotReady" }
            );
            if !ready {
                exit = ExitCode::FAILURE;
            }
        }
        let mut board = Board::default();
        for pod in Api::<Pod>::all(client.clone()).list(&ListParams::default()).await? {
            board.put_pod(&pod);
        }
        for ledger in Api::<RestartLedger>::all(client).list(&ListParams::default()).await? {
            board.put_ledger(ledger);
        }
        let rows = board.rows(SystemClock::start().now());
        text += &if rows.is_empty() {
            "no pods\n".to_owned()
        } else {
            format!("\n{}", live::render(rows))
        };
        output::print(&text)?;
        Ok(exit)
    })
}
