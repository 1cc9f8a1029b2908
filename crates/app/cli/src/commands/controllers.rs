//! `rekindle controllers`: controllers, scheduler and ladders in a process of their own. They stand
//! by while others lead.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, ensure};
use rekindle_api::Entropy;
use rekindle_api_server::{OsEntropy, SystemClock};
use rekindle_operator::{ElectedParts, LadderFigures, OperatorParts};

use crate::args::{ApiAccess, Controllers};
use crate::background::{event_loop, init_log};
use crate::client;
use crate::engine::EndSignals;
use crate::output;

/// Carries the command out: until a signal ends it, which gives the lease back.
pub fn run(args: &Controllers) -> anyhow::Result<ExitCode> {
    init_log("info");
    let limits = args.ladder.limits()?;
    let candidacy = args.election.candidacy(identity())?;
    event_loop()?.block_on(async {
        let mut signals = EndSignals::listen()?;
        let access = ApiAccess {
            namespace: None,
            kubeconfig: args.kubeconfig.clone(),
            context: args.context.clone(),
            data_dir: args.data_dir.clone(),
        };
        let client = client::connect_to(&access).await?.client;
        let version = client.apiserver_version().await.context("reach the API")?;
        // on a cluster they would fight with those that are there
        ensure!(
            client::is_engine(&version.git_version),
            "the API is not Rekindle's but {}, which has controllers of its own: give the kubeconfig of an engine, or run the ladders alone with rekindle operator",
            version.git_version
        );
        output::tell(format!(
            "{} is a candidate for lease {}/{} (API {})",
            candidacy.identity,
            candidacy.lease.namespace,
            candidacy.lease.name,
            version.git_version
        ));
        let parts = OperatorParts {
            client,
            clock: SystemClock::start().shared(),
            role: args.role.role(),
            limits,
            nodes: args.failing.settings(),
            figures: Arc::new(LadderFigures::default()),
        };
        let stop = async move {
            signals.next().await;
        };
        rekindle_operator::run_elected(parts, candidacy, ElectedParts::default(), stop).await;
        Ok(ExitCode::SUCCESS)
    })
}

/// As client-go makes it: the host's name, and what no other process has.
pub(super) fn identity() -> String {
    let mut bytes = [0_u8; 8];
    OsEntropy::default().fill(&mut bytes);
    let host = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
    format!("{host}_{:016x}", u64::from_be_bytes(bytes))
}
