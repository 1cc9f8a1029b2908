//! `rekindle kubeconfig`: certificates for users, by the key of an engine's CA. Who can read the
//! data directory can become any user; the engine itself need not run.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use rekindle_api_server::SystemClock;
use rekindle_api_server::pki::{CertificateAuthority, Kubeconfig, RevokedCertificates};
use rekindle_kinds::identity::{MASTERS, UserInfo};
use rekindle_types::{Tick, TickDuration};

use crate::args::{KubeconfigCommand, KubeconfigCreate, KubeconfigRevoke};
use crate::engine::data_dir::PKI;
use crate::holder::DataDirHolder;
use crate::output;

/// The longest common name of a certificate (RFC 5280, appendix A.1).
const NAME_CHARS_MAX: usize = 64;

/// Carries the command out.
pub fn run(command: &KubeconfigCommand) -> anyhow::Result<ExitCode> {
    match command {
        KubeconfigCommand::Create(create) => self::create(create)?,
        KubeconfigCommand::Revoke(revoke) => self::revoke(revoke)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn create(args: &KubeconfigCreate) -> anyhow::Result<()> {
    check_name("--user", &args.user)?;
    args.groups.iter().try_for_each(|group| check_name("--group", group))?;
    let data_dir = &args.data_dir.data_dir;
    let folder = existing_keys(data_dir)?;
    let server = match &args.server {
        Some(server) => check_server(server)?,
        None => server_of(data_dir)?,
    };
    let now = SystemClock::start().now();
    let pki = CertificateAuthority::open(&folder, now).context("open the engine's keys")?;
    let begin = RevokedCertificates::open(&folder)?.good_again(&args.user, now);
    let lifetime = TickDuration::from_secs(args.ttl.as_secs());
    if args.ttl.as_secs() == 0 {
        bail!("--ttl: give at least 1s");
    }
    if begin + lifetime > pki.ends_at() {
        bail!("--ttl: the engine's own CA ends before that, at {}", pki.ends_at().to_time().0);
    }
    let user = UserInfo::new(&*args.user, args.groups.clone());
    let certificate = pki.client(&user, lifetime, begin)?;
    let kubeconfig = Kubeconfig {
        server: &server,
        ca_pem: pki.ca_pem(),
        context: &format!("{}@rekindle", args.user),
        namespace: args.namespace.as_deref(),
        user: &args.user,
        certificate: &certificate,
    };
    // its certificates were revoked in this second
    std::thread::sleep(begin.since(SystemClock::start().now()).to_std());
    match &args.file {
        Some(file) => {
            kubeconfig.write(file).with_context(|| format!("write {}", file.display()))?;
        }
        None => output::print(&kubeconfig.text())?,
    }
    if !args.groups.iter().any(|group| group == MASTERS) {
        output::note(format!(
            "{:?} may do what roles give; for example: kubectl create clusterrolebinding NAME --clusterrole=view --user={}",
            args.user, args.user
        ));
    }
    Ok(())
}

fn revoke(args: &KubeconfigRevoke) -> anyhow::Result<()> {
    check_name("--user", &args.user)?;
    let data_dir = &args.data_dir.data_dir;
    let folder = existing_keys(data_dir)?;
    let now = SystemClock::start().now();
    let mut revoked = RevokedCertificates::open(&folder)?;
    revoked.revoke(&args.user, now);
    revoked.keep(&folder)?;
    let until = Tick::from_secs(now.since(Tick::ZERO).as_secs()).to_time().0;
    output::tell(format!(
        "certificates of {:?} that were issued until {until} are void{}",
        args.user,
        match DataDirHolder::find(data_dir)? {
            Some(_) => "; the engine ends their connections",
            None => "",
        }
    ));
    Ok(())
}

/// The folder of keys of an engine that has run once.
pub(super) fn existing_keys(data_dir: &Path) -> anyhow::Result<PathBuf> {
    let folder = data_dir.join(PKI);
    let key = folder.join("ca.key");
    if !key.try_exists().with_context(|| format!("look for {}", key.display()))? {
        bail!(
            "{} has no keys: start an engine with `rekindle up` first, or name its folder with --data-dir",
            data_dir.display()
        );
    }
    Ok(folder)
}

fn check_name(option: &str, name: &str) -> anyhow::Result<()> {
    let chars = name.chars().count();
    if chars == 0 || chars > NAME_CHARS_MAX || name.chars().any(char::is_control) {
        bail!("{option} {name:?}: give a name of 1 to {NAME_CHARS_MAX} characters");
    }
    Ok(())
}

fn check_server(server: &str) -> anyhow::Result<String> {
    let address: Option<http::Uri> = server.parse().ok();
    let is_address = |uri: http::Uri| uri.scheme_str() == Some("https") && uri.host().is_some();
    if !address.is_some_and(is_address) {
        bail!("--server {server:?}: give an address such as https://10.0.0.5:6443");
    }
    Ok(server.to_owned())
}

/// Where the engine's own kubeconfig finds the API.
fn server_of(data_dir: &Path) -> anyhow::Result<String> {
    let path = data_dir.join("kubeconfig");
    let kubeconfig = kube::config::Kubeconfig::read_from(&path).with_context(|| {
        format!("read {}: give the API's address with --server", path.display())
    })?;
    let cluster = kubeconfig.clusters.into_iter().find_map(|cluster| cluster.cluster);
    let server = cluster.and_then(|cluster| cluster.server);
    server.with_context(|| format!("{} names no server: give it with --server", path.display()))
}
