//! The API of an engine as it is served: at `--listen`, with what it needs done beside requests.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rekindle_api_server::pki::RevokedCertificates;
use rekindle_api_server::{
    ApiServer, AuditCarriers, Front, ServerLimits, TlsListener, follow_api_servers,
    keep_flow_control, keep_roles_aggregated, keep_token_secrets, migrate_storage,
    sign_certificates,
};
use rekindle_operator::LadderFigures;
use rekindle_store::Compaction;
use rekindle_types::Tick;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::admission_config;
use super::api_threads::ApiThreads;
use super::audit_log::PreparedAuditLog;
use super::data_dir::{DataDir, PKI};
use super::encryption;
use super::key_upkeep::AdminKubeconfig;
use super::opened::OpenedApi;
use super::phase::PhaseNotifier;
use super::pod_dialer::MachineDialer;
use super::routes::NodeRoutes;
use super::service_range::ChosenServiceRange;
use crate::args::Up;
use crate::{footprint, output};

/// How often the API is asked whether Events have expired while none is due.
const EXPIRY_LOOK: Duration = Duration::from_secs(600);

/// kube-apiserver's `--etcd-compaction-interval`: who resumes a watch or a list may be away for so
/// long.
const COMPACTION_PERIOD: Duration = Duration::from_secs(300);

/// An API that is served.
pub struct ServedApi {
    pub api: OpenedApi,
    /// Where it listens.
    pub address: SocketAddr,
    /// What serves its clients.
    pub threads: ApiThreads,
    pub kubeconfig: AdminKubeconfig,
    audit: Option<AuditCarriers>,
    server: JoinHandle<std::io::Result<()>>,
}

impl ServedApi {
    /// Serves until the phase says otherwise; what nodes are asked goes along the routes.
    pub async fn start(
        args: &Up,
        data_dir: &DataDir,
        services: ChosenServiceRange,
        (routes, figures): (&NodeRoutes, &Arc<LadderFigures>),
        phases: &PhaseNotifier,
    ) -> anyhow::Result<Self> {
        let admission = &args.admission;
        let pod_security =
            admission_config::read(admission.admission_control_config_file.as_deref())?;
        let audit_log = PreparedAuditLog::read(&args.audit).await?;
        let encryption =
            encryption::read(args.store.encryption.encryption_provider_config.as_deref())?;
        let listener = listen(args).await?.into_std().context("take the listener")?;
        let store = (encryption, args.store.limits());
        let mut api = OpenedApi::open(data_dir, Arc::new(routes.clone()), services, store)?;
        api.front = api
            .front
            .with_streams(Arc::new(routes.clone()))
            .with_nodes(Arc::new(routes.clone()))
            .with_pods(Arc::new(MachineDialer))
            .with_figures(figures.clone());
        let mut audit = None;
        if let Some(log) = audit_log {
            let (front, carriers) = log.start(api.front, api.clock.shared())?;
            (api.front, audit) = (front, Some(carriers));
        }
        let front = &api.front;
        front.api().set_default_toleration_seconds(args.default_toleration_seconds);
        front.api().set_token_seconds_max(admission.token_seconds_max());
        front.api().configure_pod_security(pod_security);
        let address = listener.local_addr()?;
        let revoked = RevokedCertificates::open(&data_dir.join(PKI))?;
        front.revoke_certificates(revoked.clone());
        let tls = TlsListener::new(Arc::clone(&api.pki), &[address.ip()], api.clock.shared())
            .context("prepare TLS")?;
        let kubeconfig = AdminKubeconfig::write(
            data_dir.path(),
            url(address),
            &api.pki,
            &revoked,
            api.clock.now(),
        )
        .await?;
        let server = ApiServer::new(front.clone(), tls, ServerLimits::default());
        let threads = ApiThreads::start()?;
        let server = threads.serve(server, listener, phases.stopped())?;
        tokio::spawn(prune_events(front.clone(), phases.stopped()));
        tokio::spawn(keep_roles_aggregated(front.clone(), phases.stopped()));
        tokio::spawn(keep_flow_control(front.clone(), phases.stopped()));
        tokio::spawn(sign_certificates(front.clone(), Arc::clone(&api.pki), phases.stopped()));
        tokio::spawn(keep_token_secrets(front.clone(), phases.stopped()));
        tokio::spawn(migrate_storage(front.clone(), phases.stopped()));
        tokio::spawn(follow_api_servers(front.clone(), phases.stopped()));
        tokio::spawn(forget_history(api.compaction(), phases.stopped()));
        tokio::spawn(footprint::shrink_after_bursts(front.clone(), phases.stopped()));
        Ok(Self { api, address, threads, kubeconfig, audit, server })
    }

    /// Says where the API is.
    pub fn announce(&self) {
        output::tell(format!("API        {}", url(self.address)));
        output::tell(format!("kubeconfig export KUBECONFIG={}", self.kubeconfig.path.display()));
    }

    /// Resolves when the server ends by itself, which it does not do while all is well.
    pub async fn failure(&mut self) -> anyhow::Result<Infallible> {
        let ended = (&mut self.server).await;
        ended.context("the API server panicked")?.context("the API server cannot continue")?;
        anyhow::bail!("the API server ended unasked; the pods go on: start the engine again")
    }

    /// Waits for the server, which has been told to stop, and ends the store.
    pub async fn close(self) {
        wait_for(self.server).await;
        if let Some(audit) = self.audit {
            audit.close().await;
        }
        self.api.close();
    }
}

/// Waits for a server that has been told to stop.
pub async fn wait_for(server: JoinHandle<std::io::Result<()>>) {
    if !server.is_finished() && server.await.is_err() {
        tracing::warn!("failed to stop the API server: its task panicked");
    }
}

fn url(address: SocketAddr) -> String {
    format!("https://{address}")
}

async fn listen(args: &Up) -> anyhow::Result<TcpListener> {
    TcpListener::bind(args.listen).await.with_context(|| {
        format!(
            "listen on {}: give another address with --listen (port 0 takes a free one)",
            args.listen
        )
    })
}

/// Without it the history of an engine that has been up for days is as large as it may be.
async fn forget_history(mut compaction: Compaction, stopped: impl Future<Output = ()>) {
    let mut stopped = std::pin::pin!(stopped);
    loop {
        tokio::select! {
            () = &mut stopped => return,
            () = tokio::time::sleep(COMPACTION_PERIOD) => compaction.step(),
        }
    }
}

/// Takes Events away when their hour is over.
async fn prune_events(front: Front, stopped: impl Future<Output = ()>) {
    let mut stopped = std::pin::pin!(stopped);
    loop {
        let wait = front
            .api()
            .next_expiry()
            .map_or(EXPIRY_LOOK, |due: Tick| due.since(front.now()).to_std());
        tokio::select! {
            () = &mut stopped => return,
            () = tokio::time::sleep(wait) => {}
        }
        let gone = async {
            match front.api().prune(front.now())? {
                Some(last) => last.await.map(drop),
                None => Ok(()),
            }
        };
        if let Err(error) = gone.await {
            tracing::warn!(%error, "failed to delete expired events");
            front.api().reread_expiry();
            // they are due: without this it would ask in a circle
            tokio::time::sleep(EXPIRY_LOOK).await;
        }
    }
}
