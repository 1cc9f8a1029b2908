//! `rekindle operator`: ladders alone, on a cluster that has controllers, a scheduler and kubelets
//! of its own. Several stand by for each other.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use rekindle_api_server::SystemClock;
use rekindle_metrics::{MetricsSource, Text};
use rekindle_operator::{
    Candidacy, ClusterLadders, ElectedParts, LADDER_LABEL, LADDER_LABEL_ENABLED, LadderFigures,
    Leadership, LeadershipState, NamespacedName, OperatorParts, PlannerRole, Webhook,
};
use rekindle_types::v1alpha1::API_VERSION;

use crate::args::{MetricsAddress, ModeArg, OperatorArgs};
use crate::background::{event_loop, init_log};
use crate::cluster_guard::ClusterGuard;
use crate::engine::EndSignals;
use crate::monitoring::{self, Monitored};
use crate::{client, exhausted_webhook, footprint, output};

/// The Lease that the operator which decides holds, in the operator's namespace.
const LEASE: &str = "rekindle-operator";
/// Where the operator belongs when it runs outside of the cluster.
const NAMESPACE_DEFAULT: &str = "rekindle-system";

/// Carries the command out: until a signal ends it, which gives the lease back.
pub fn run(args: &OperatorArgs) -> anyhow::Result<ExitCode> {
    init_log("info");
    let limits = args.ladder.limits()?;
    let webhook = receiver(args)?;
    event_loop()?.block_on(async {
        let signals = EndSignals::listen()?;
        let config = client::operator_config(args.kubeconfig.as_deref(), args.context.clone()).await?;
        let namespace = match &args.namespace {
            Some(namespace) => namespace.clone(),
            None => client::own_namespace().unwrap_or_else(|| NAMESPACE_DEFAULT.to_owned()),
        };
        let lease = NamespacedName::new(namespace.as_str(), LEASE);
        let candidacy = args.election.candidacy_for(lease, super::controllers::identity())?;
        let client = Client::try_from(config).context("connect to the API")?;
        let version = client.apiserver_version().await.context("reach the API")?.git_version;
        ensure!(
            args.on_engine || !client::is_engine(&version),
            "the API is Rekindle's own ({version}), which runs the ladders itself: give the kubeconfig of a cluster"
        );
        check(&client, &namespace).await?;
        output::tell(format!(
            "{} is a candidate for lease {}/{} (API {version}); mode {}; namespaces with the label {LADDER_LABEL}={LADDER_LABEL_ENABLED}",
            candidacy.identity,
            candidacy.lease.namespace,
            candidacy.lease.name,
            args.mode.name(),
        ));
        let ladders = ClusterLadders {
            mode: args.mode.mode(),
            own_namespace: namespace,
            taints_nodes: args.taint_avoided_nodes,
        };
        let parts = OperatorParts {
            client,
            clock: SystemClock::start().shared(),
            role: PlannerRole::Cluster(ladders),
            limits,
            nodes: Default::default(),
            figures: Arc::new(LadderFigures::default()),
        };
        let elected = ElectedParts { webhook, leadership: Arc::default() };
        let (guard, follow) = ClusterGuard::look(&parts.client, &candidacy.lease.namespace).await?;
        tokio::spawn(follow);
        if let MetricsAddress::At(addresses) = &args.metrics_bind_address {
            let figures = OperatorFigures {
                ladders: Arc::clone(&parts.figures),
                leadership: Arc::clone(&elected.leadership),
                guard: guard.clone(),
            };
            tokio::spawn(monitoring::listen(addresses, Arc::new(figures)).await?);
        }
        footprint::shrink_after_start();
        run_where_free(guard, signals, parts, candidacy, elected).await;
        Ok(ExitCode::SUCCESS)
    })
}

/// Runs the operator whenever no other one acts in the cluster, until a signal comes.
async fn run_where_free(
    mut guard: ClusterGuard,
    mut signals: EndSignals,
    parts: OperatorParts,
    candidacy: Candidacy,
    elected: ElectedParts,
) {
    loop {
        if let Some(refusal) = guard.refusal() {
            output::tell(refusal);
            tokio::select! {
                () = guard.until_free() => {}
                _ = signals.next() => return,
            }
        }
        let mut has_ended = false;
        let stop = async {
            tokio::select! {
                _ = signals.next() => has_ended = true,
                () = guard.until_refused() => {}
            }
        };
        let (parts, candidacy) = (parts.clone(), candidacy.clone());
        rekindle_operator::run_elected(parts, candidacy, elected.clone(), stop).await;
        if has_ended {
            return;
        }
    }
}

/// What monitoring sees of an operator.
struct OperatorFigures {
    ladders: Arc<LadderFigures>,
    leadership: Arc<Leadership>,
    guard: ClusterGuard,
}

impl Monitored for OperatorFigures {
    fn write_metrics(&self, text: &mut Text) {
        self.ladders.write(text);
        self.leadership.write(text);
    }

    async fn not_ready(&self) -> Option<String> {
        if let Some(refusal) = self.guard.refusal() {
            return Some(refusal);
        }
        match self.leadership.state() {
            LeadershipState::Undecided => Some("the lease has not been read yet".to_owned()),
            LeadershipState::StandsBy | LeadershipState::Leads => None,
        }
    }
}

/// In mode observe a ladder is exhausted only on paper, and nothing is reported.
fn receiver(args: &OperatorArgs) -> anyhow::Result<Option<Arc<Webhook>>> {
    let webhook = exhausted_webhook::webhook(&args.exhausted)?;
    if webhook.is_some() && args.mode == ModeArg::Observe {
        output::tell("mode observe: exhausted ladders are not reported to the webhook");
        return Ok(None);
    }
    Ok(webhook.map(Arc::new))
}

/// Whether all is there that the operator cannot make itself.
async fn check(client: &Client, namespace: &str) -> anyhow::Result<()> {
    match client.list_api_group_resources(API_VERSION).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => bail!(
            "the API does not serve {API_VERSION}: rekindle crds | kubectl apply --server-side -f -"
        ),
        Err(error) => return Err(error).context("look for Rekindle's kinds"),
    }
    let found = Api::<Namespace>::all(client.clone()).get_opt(namespace).await;
    let found = found.with_context(|| format!("look for namespace {namespace}"))?;
    ensure!(
        found.is_some(),
        "there is no namespace {namespace} for the lease: kubectl create namespace {namespace}"
    );
    Ok(())
}
