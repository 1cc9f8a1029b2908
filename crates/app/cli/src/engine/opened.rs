//! An API on the store of a data directory, whether it serves clients or not.

use std::sync::Arc;

use anyhow::{Context, bail};
use kube::Client;
use rekindle_api::auth::AuthorizationMode;
use rekindle_api::{Api, ApiParts};
use rekindle_api_server::pki::{CertificateAuthority, TokenKey};
use rekindle_api_server::{Front, FrontParts, NodeLogs, OsEntropy, RingSignatures, SystemClock};
use rekindle_encryption::{EncryptedDisk, Encryption};
use rekindle_kinds::identity::UserInfo;
use rekindle_redb_disk::RedbDisk;
use rekindle_store::{Compaction, Store, StoreLimits};
use rekindle_types::Tick;

use super::data_dir::{DataDir, PKI, STORE};
use super::service_range::ChosenServiceRange;
use super::unfinished_restore;

/// The API, what is beneath it, and the certificates by which it is known.
pub struct OpenedApi {
    pub clock: SystemClock,
    pub pki: Arc<CertificateAuthority>,
    pub front: Front,
    store: Store,
    committer: std::thread::JoinHandle<()>,
}

impl OpenedApi {
    /// Opens it, and creates what must be there before the first request: the system's namespaces.
    /// It asks `logs` for the logs of containers.
    pub fn open(
        data_dir: &DataDir,
        logs: Arc<dyn NodeLogs>,
        services: ChosenServiceRange,
        (encryption, limits): (Encryption, StoreLimits),
    ) -> anyhow::Result<Self> {
        unfinished_restore::refuse(data_dir.path())?;
        let clock = SystemClock::start();
        let pki = CertificateAuthority::open(&data_dir.join(PKI), clock.now())
            .context("prepare the certificates")?;
        let (store, committer) = open_store(data_dir, encryption, limits)?;
        check_services(&store, services)?;
        services.keep(data_dir)?;
        let keys = TokenKey::open_all(&data_dir.join(PKI)).context("prepare the key for tokens")?;
        let parts = ApiParts {
            registry: rekindle_kinds::all(),
            store: store.clone(),
            entropy: Box::new(OsEntropy::default()),
            authorizer: AuthorizationMode::Rbac,
            ca_bundle: pki.ca_pem().to_owned(),
        };
        let api = Api::new(parts);
        api.set_token_keys(keys);
        api.verify_signatures_with(RingSignatures);
        api.configure_service_ranges(services.ranges());
        let proxy = CertificateAuthority::open_front_proxy(&data_dir.join(PKI), clock.now())
            .context("prepare the certificates of the proxy to other API servers")?;
        api.configure_front_proxy(proxy.ca_pem());
        for pending in api.bootstrap(clock.now()).context("prepare the API")? {
            pending.wait().context("prepare the API")?;
        }
        // its keeper does the rest; the first request finds the levels
        for pending in api.maintain_flow_control(clock.now()).context("prepare the API")? {
            pending.wait().context("prepare the API")?;
        }
        resume_definitions(&api, clock.now());
        let front = Front::new(FrontParts { api, clock: clock.shared(), logs });
        let front = front.with_front_proxy(proxy).context("prepare the proxy's certificate")?;
        Ok(Self { clock, pki: Arc::new(pki), front, store, committer })
    }

    /// A client inside the process.
    pub fn client(&self, user: &str) -> Client {
        Client::new(self.front.in_process_service(UserInfo::internal(user)), "default")
    }

    /// What keeps its history short.
    pub fn compaction(&self) -> Compaction {
        Compaction::new(self.store.clone())
    }

    /// Ends the store; what was acknowledged is on the disk.
    pub fn close(self) {
        self.store.close();
        if self.committer.join().is_err() {
            tracing::error!("failed to keep the store's writer running: it panicked");
        }
    }
}

/// Goes on with definitions that the end of the engine before has interrupted. What fails stops no
/// start: it concerns these definitions only.
fn resume_definitions(api: &Api, now: Tick) {
    let resumed = api.resume_definitions(now);
    for (definition, error) in resumed.failures {
        tracing::warn!(definition, %error, "failed to resume CustomResourceDefinition");
    }
    for pending in resumed.pending {
        if let Err(error) = pending.wait() {
            tracing::warn!(%error, "failed to persist resumed CustomResourceDefinition");
        }
    }
}

/// The Services beside that of the API itself, which follows the range.
fn check_services(store: &Store, services: ChosenServiceRange) -> anyhow::Result<()> {
    let Some(before) = services.replaces else { return Ok(()) };
    let all = store.count("/services/");
    let own = usize::from(store.get("/services/default/kubernetes").is_some());
    if all > own {
        bail!(
            "--service-cidr {}: Services have addresses of {before} ({} of them): delete them first, or go on without this argument",
            services.range,
            all - own
        );
    }
    Ok(())
}

fn open_store(
    data_dir: &DataDir,
    encryption: Encryption,
    limits: StoreLimits,
) -> anyhow::Result<(Store, std::thread::JoinHandle<()>)> {
    let disk = EncryptedDisk::new(RedbDisk::new(data_dir.join(STORE)), encryption);
    let (store, committer) = Store::open(disk, limits).context("open the store")?;
    let thread = std::thread::Builder::new()
        .name("store-committer".to_owned())
        .spawn(move || committer.run())
        .context("start the store's writer")?;
    Ok((store, thread))
}
