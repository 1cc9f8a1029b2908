//! Keeps keys and certificates right while the engine runs: what `rekindle kubeconfig revoke` and
//! `rekindle token-key` change in the folder of keys takes effect at once, and certificates that
//! lie in files are renewed at half of their time. (The servers renew their own.)

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rekindle_api_server::pki::{
    ADMIN, CERTIFICATE_RENEWED_AFTER, CertificateAuthority, Kubeconfig, RevokedCertificates,
    TokenKey,
};
use rekindle_api_server::{Front, SystemClock};
use rekindle_node::FolderWatch;
use rekindle_types::Tick;
use rustix::fs::inotify::WatchFlags;

use crate::nodes::{CommonNodeSettings, NodesFolder, renew_all};

/// How often certificates are looked at that nothing has changed.
const LOOK_PERIOD: Duration = Duration::from_secs(24 * 3600);

/// The kubeconfig in the data directory.
#[derive(Clone, Debug)]
pub struct AdminKubeconfig {
    pub path: PathBuf,
    server: String,
    certified_at: Tick,
}

/// The folder of keys of an engine, and what depends on it.
pub struct KeyUpkeep {
    pub folder: PathBuf,
    pub front: Front,
    pub pki: Arc<CertificateAuthority>,
    pub clock: SystemClock,
    pub kubeconfig: AdminKubeconfig,
    pub nodes: NodesFolder,
    pub common: CommonNodeSettings,
}

impl AdminKubeconfig {
    /// Writes it with a new certificate.
    pub async fn write(
        data_dir: &Path,
        server: String,
        pki: &CertificateAuthority,
        revoked: &RevokedCertificates,
        now: Tick,
    ) -> anyhow::Result<Self> {
        let path = data_dir.join("kubeconfig");
        let mut kubeconfig = Self { path, server, certified_at: now };
        kubeconfig.renew(pki, revoked, now).await?;
        Ok(kubeconfig)
    }

    async fn renew(
        &mut self,
        pki: &CertificateAuthority,
        revoked: &RevokedCertificates,
        now: Tick,
    ) -> anyhow::Result<()> {
        let begin = revoked.good_again(ADMIN, now);
        // whoever finds the file can use it
        tokio::time::sleep(begin.since(now).to_std()).await;
        let admin = pki.admin(begin).context("issue the admin's certificate")?;
        Kubeconfig {
            server: &self.server,
            ca_pem: pki.ca_pem(),
            context: "rekindle",
            namespace: None,
            user: "rekindle-admin",
            certificate: &admin,
        }
        .write(&self.path)
        .with_context(|| format!("write {}", self.path.display()))?;
        self.certified_at = begin;
        Ok(())
    }

    fn is_due(&self, revoked: &RevokedCertificates, now: Tick) -> bool {
        now.since(self.certified_at) >= CERTIFICATE_RENEWED_AFTER
            || revoked.has(ADMIN, self.certified_at)
    }
}

impl KeyUpkeep {
    /// Runs until `stopped` resolves.
    pub async fn run(mut self, stopped: impl Future<Output = ()>) {
        let mut stopped = std::pin::pin!(stopped);
        let watch = FolderWatch::new(&self.folder, WatchFlags::MOVED_TO | WatchFlags::DELETE);
        let mut watch = watch.inspect_err(not_watched).ok();
        loop {
            // also what has changed before the watch began
            self.look().await;
            let changed = async {
                match &watch {
                    Some(watch) => watch.changed().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = &mut stopped => return,
                () = tokio::time::sleep(LOOK_PERIOD) => {}
                changed = changed => if changed.inspect_err(not_watched).is_err() {
                    watch = None;
                }
            }
        }
    }

    async fn look(&mut self) {
        self.take_token_keys();
        let revoked = match RevokedCertificates::open(&self.folder) {
            Ok(revoked) => revoked,
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                return tracing::warn!(error, "failed to read which certificates are revoked");
            }
        };
        let ended = self.front.revoke_certificates(revoked.clone());
        if ended > 0 {
            tracing::info!(ended, "ended connections of revoked certificates");
        }
        let now = self.clock.now();
        if self.kubeconfig.is_due(&revoked, now)
            && let Err(error) = self.kubeconfig.renew(&self.pki, &revoked, now).await
        {
            tracing::warn!("failed to renew the admin's kubeconfig: {error:#}");
        }
        let (nodes, common) = (self.nodes.clone(), self.common.clone());
        let pki = Arc::clone(&self.pki);
        let renew = move || renew_all(&nodes, &common, &pki, now);
        let renewed = tokio::task::spawn_blocking(renew).await.context("renew certificates");
        if let Err(error) = renewed.and_then(|renewed| renewed) {
            tracing::warn!("failed to renew the certificates of nodes: {error:#}");
        }
    }

    /// A key that was removed is no order to begin with a new one: pods have tokens of it.
    fn take_token_keys(&self) {
        if !self.folder.join(TokenKey::FILE).exists() {
            return tracing::warn!(
                "failed to find the key of tokens; the engine goes on with the one it has"
            );
        }
        match TokenKey::open_all(&self.folder) {
            Ok(keys) => self.front.api().set_token_keys(keys),
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(
                    error,
                    "failed to read the keys of tokens; the engine goes on with those it has"
                );
            }
        }
    }
}

fn not_watched(error: &std::io::Error) {
    tracing::warn!(%error, "failed to watch the folder of keys; changes take effect within a day");
}
