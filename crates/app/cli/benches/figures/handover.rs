//! Who leads: how long until another process of controllers has taken over, and what leading and
//! standing by cost. With the usual periods of leader election.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::TryStreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};
use rekindle_testkit::guarded_child::GuardedChild;
use rustix::process::{Pid, Signal, kill_process};

use crate::engine::{Engine, cpu_percent};
use crate::sample::{Amount, Report};

const STOPS: usize = 5;
const KILLS: usize = 3;
const NAMESPACE: &str = "kube-system";
const LEASE: &str = "rekindle-controllers";
const OBSERVED: Duration = Duration::from_secs(30);
/// Twice as long as a leader that was killed is waited for.
const DEADLINE: Duration = Duration::from_secs(40);

pub async fn measure(report: &mut Report) -> anyhow::Result<()> {
    let engine = Engine::start_with(&["--no-controllers"]).await?;
    let leases = Api::<Lease>::namespaced(engine.client.clone(), NAMESPACE);
    let mut leader = Candidate::start(&engine, "leads")?;
    let (mut stopped, mut killed) = (Vec::new(), Vec::new());
    for signal in [vec![Signal::TERM; STOPS], vec![Signal::KILL; KILLS]].concat() {
        let next = Candidate::start(&engine, "stands by")?;
        let took = hand_over(&leases, leader, signal).await?;
        if signal == Signal::TERM {
            stopped.push(took);
        } else {
            killed.push(took);
        }
        leader = next;
    }
    report.durations("leader stopped → another leads", "≤ 3 s", stopped);
    report.durations("leader killed → another leads", "≤ 17 s", killed);

    let standby = Candidate::start(&engine, "stands by")?;
    let processes = [leader.child.0.id(), standby.child.0.id()];
    let shares = cpu_percent(&processes, OBSERVED).await?;
    report.amount(
        "CPU of idle controllers: the process that leads / stands by",
        "none",
        Amount::cost(shares.iter().sum()),
        format!("{:.2} / {:.2} % of a core", shares[0], shares[1]),
    );
    Ok(())
}

/// From the signal until a watch shows another holder.
async fn hand_over(
    leases: &Api<Lease>,
    leader: Candidate,
    signal: Signal,
) -> anyhow::Result<Duration> {
    let holder = |lease: &Lease| lease.spec.as_ref()?.holder_identity.clone();
    let old = holder(&leases.get(LEASE).await?).context("somebody leads")?;
    let config = watcher::Config::default().fields(&format!("metadata.name={LEASE}"));
    let mut seen = Box::pin(watcher(leases.clone(), config).applied_objects());
    seen.try_next().await?.context("the watch of the lease ended")?;
    let begun = Instant::now();
    kill_process(Pid::from_child(&leader.child.0), signal)?;
    let taken_over = async {
        loop {
            let lease = seen.try_next().await?.context("the watch of the lease ended")?;
            if holder(&lease).is_some_and(|new| !new.is_empty() && new != old) {
                return anyhow::Ok(begun.elapsed());
            }
        }
    };
    tokio::time::timeout(DEADLINE, taken_over).await.context("nobody has taken over in time")?
}

/// A process of `rekindle controllers`; killed when it is dropped.
struct Candidate {
    child: GuardedChild,
}

impl Candidate {
    /// Starts it, and waits until it says this of itself.
    fn start(engine: &Engine, says: &str) -> anyhow::Result<Self> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_rekindle"))
            .args(["controllers", "--kubeconfig"])
            .arg(engine.kubeconfig())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("start controllers")?;
        let mut lines = BufReader::new(child.stderr.take().context("its log")?).lines();
        let candidate = Self { child: GuardedChild(child) };
        while !lines.next().context("the controllers ended")??.contains(says) {}
        std::thread::spawn(move || lines.for_each(drop));
        Ok(candidate)
    }
}
