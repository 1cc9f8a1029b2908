//! Serves the API from memory, for trying kubectl against it:
//! `cargo run -p rekindle-api-server --example serve -- <kubeconfig> [port]`.
#![allow(clippy::disallowed_methods, reason = "a driver: it owns threads, clock and files")]

use std::path::PathBuf;
use std::sync::Arc;

use rekindle_api::auth::AuthorizationMode;
use rekindle_api::{Api, ApiParts};
use rekindle_api_server::pki::{ADMIN, CertificateAuthority, Kubeconfig};
use rekindle_api_server::{
    ApiServer, Front, FrontParts, NoLogs, OsEntropy, ServerLimits, SystemClock, TlsListener,
};
use rekindle_store::memory::MemoryDisk;
use rekindle_store::{Store, StoreLimits};
use tokio::net::TcpListener;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let kubeconfig = PathBuf::from(args.next().ok_or("usage: serve <kubeconfig> [port]")?);
    let port: u16 = args.next().map_or(Ok(0), |port| port.parse())?;
    let clock = SystemClock::start();
    let pki = Arc::new(CertificateAuthority::ephemeral(clock.now())?);
    let (store, committer) = Store::open(MemoryDisk::default(), StoreLimits::default())?;
    std::thread::spawn(move || committer.run());
    let api = Api::new(ApiParts {
        registry: rekindle_kinds::all(),
        store,
        entropy: Box::new(OsEntropy::default()),
        authorizer: AuthorizationMode::Rbac,
        ca_bundle: pki.ca_pem().to_owned(),
    });
    for pending in api.bootstrap(clock.now())? {
        pending.wait()?;
    }
    let front = Front::new(FrontParts { api, clock: clock.shared(), logs: Arc::new(NoLogs) });
    let tls = TlsListener::new(Arc::clone(&pki), &[], clock.shared())?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let admin = pki.admin(clock.now())?;
        let server = format!("https://{}", listener.local_addr()?);
        let config = Kubeconfig {
            server: &server,
            ca_pem: pki.ca_pem(),
            context: "rekindle",
            namespace: None,
            user: ADMIN,
            certificate: &admin,
        };
        config.write(&kubeconfig)?;
        println!("{server}, kubeconfig {}", kubeconfig.display());
        let stop = async {
            if let Err(error) = tokio::signal::ctrl_c().await {
                eprintln!("wait for ctrl-c: {error}");
            }
        };
        ApiServer::new(front, tls, ServerLimits::default()).serve(listener, stop).await?;
        Ok(())
    })
}
