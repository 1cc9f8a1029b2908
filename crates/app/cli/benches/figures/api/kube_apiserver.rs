//! kube-apiserver with an etcd of its own, on the same disk as our data directories.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use http::HeaderValue;
use rcgen::CertifiedKey;
use rekindle_testkit::free_port;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

use super::connection::Server;

const TOKEN: &str = "benchmark";
/// It starts with controllers of its own for its groups and priority levels.
const TIME_MAX: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Both processes; dropping it ends them.
pub struct KubeApiServer {
    pub server: Server,
    children: Vec<Child>,
    _dir: tempfile::TempDir,
}

impl KubeApiServer {
    /// Starts both and waits until the API is ready. Admission that needs controllers is off: the
    /// API server alone is measured.
    pub async fn start() -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("rekindle-peer-").tempdir()?;
        let path = |name: &str| dir.path().join(name).display().to_string();
        let api_port = free_port();
        let [etcd, peer] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
        let tls = write_keys(dir.path())?;
        std::fs::write(path("tokens"), format!("{TOKEN},bench,bench,system:masters\n"))?;
        let mut etcd_command = Command::new("etcd");
        etcd_command.args(["--log-level", "error", "--data-dir", &path("etcd")]);
        for (option, address) in [
            ("--listen-client-urls", &etcd),
            ("--advertise-client-urls", &etcd),
            ("--listen-peer-urls", &peer),
        ] {
            etcd_command.args([option, &format!("http://{address}")]);
        }
        let mut api_command = Command::new("kube-apiserver");
        api_command.args([
            format!("--etcd-servers=http://{etcd}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=192.0.2.1".to_owned(),
            format!("--secure-port={api_port}"),
            format!("--tls-cert-file={}", path("server.pem")),
            format!("--tls-private-key-file={}", path("server.key")),
            format!("--cert-dir={}", path("certificates")),
            format!("--token-auth-file={}", path("tokens")),
            format!("--service-account-key-file={}", path("server.pem")),
            format!("--service-account-signing-key-file={}", path("server.key")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            "--service-cluster-ip-range=10.251.248.0/24".to_owned(),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
        ]);
        let mut started = Self {
            server: Server {
                address: SocketAddr::from((Ipv4Addr::LOCALHOST, api_port)),
                tls,
                authorization: Some(HeaderValue::from_str(&format!("Bearer {TOKEN}"))?),
                processes: Vec::new(),
            },
            children: Vec::new(),
            _dir: dir,
        };
        for command in [&mut etcd_command, &mut api_command] {
            let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let child = child.spawn().context("start the peer")?;
            started.server.processes.push(child.id());
            started.children.push(child);
        }
        started.until_ready().await?;
        Ok(started)
    }

    async fn until_ready(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        while !self.is_ready().await {
            for child in &mut self.children {
                let ended = child.try_wait()?;
                ensure!(ended.is_none(), "it ended: {ended:?}");
            }
            ensure!(begun.elapsed() < TIME_MAX, "it is not ready after {TIME_MAX:?}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    async fn is_ready(&self) -> bool {
        match self.server.connect().await {
            Ok(mut connection) => connection.is_served("/readyz").await.unwrap_or(false),
            Err(_) => false,
        }
    }
}

impl Drop for KubeApiServer {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            if let Err(error) = child.kill().and_then(|()| child.wait()) {
                eprintln!("end a process of the peer: {error}");
            }
        }
    }
}

/// A certificate for loopback, which clients trust by itself.
fn write_keys(dir: &Path) -> anyhow::Result<Arc<ClientConfig>> {
    let CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed([Ipv4Addr::LOCALHOST.to_string()])?;
    std::fs::write(dir.join("server.pem"), cert.pem())?;
    std::fs::write(dir.join("server.key"), signing_key.serialize_pem())?;
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(cert.der().to_vec()))?;
    Ok(Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()))
}
