//! `demo controller`: of several replicas the one that holds a Lease leads. With
//! `--release-on-cancel` it gives the Lease back when it is stopped; without, the others wait until
//! the Lease is over.

use std::time::{Duration, Instant, SystemTime};

use crate::candidate::{CandidateMove, ElectionRecord, LeaderCandidate};
use crate::lease_client::{LeaseClient, LeaseClientError, LeaseWrite};
use crate::{DemoError, Termination, duration};

/// Lead, or stand by: hold a Lease of the pod's namespace.
#[derive(Clone, Debug, clap::Args)]
pub struct ControllerDemo {
    /// The name of the Lease
    #[arg(long, default_value = "demo-controller")]
    lease: String,
    /// The name of this candidate; by default the pod's
    #[arg(long, env = "HOSTNAME", hide_env_values = true)]
    identity: String,
    /// How long others leave a Lease alone that is not renewed; in whole seconds
    #[arg(long, value_parser = duration, default_value = "15s")]
    lease_duration: Duration,
    /// How long a leader that cannot renew its Lease goes on; shorter than the Lease
    #[arg(long, value_parser = duration, default_value = "10s")]
    renew_deadline: Duration,
    /// Between two attempts
    #[arg(long, value_parser = duration, default_value = "2s")]
    retry_period: Duration,
    /// Give the Lease back on SIGTERM
    #[arg(long)]
    release_on_cancel: bool,
}

/// What a candidate is at the moment.
enum LeadershipState {
    /// For this leader; empty before it has seen one.
    StandsBy {
        leader: String,
    },
    Leads {
        renewed: Instant,
    },
}

/// What became of an attempt to take or to renew the Lease.
enum LeaseAttempt {
    Holds,
    HeldBy(String),
    /// Another wrote in between. The next attempt sees what.
    Conflict,
}

impl ControllerDemo {
    pub(crate) async fn run(self) -> Result<u8, DemoError> {
        self.check()?;
        let mut termination = Termination::listen()?;
        let client = LeaseClient::from_pod(self.lease.clone())?;
        let mut candidate = LeaderCandidate::new(self.identity.clone(), self.lease_duration);
        println!("{} is a candidate for {client}", self.identity);
        let mut state = LeadershipState::StandsBy { leader: String::new() };
        let mut retries = tokio::time::interval(self.retry_period);
        retries.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = retries.tick() => {}
                name = termination.next() => {
                    println!("got {name}");
                    return self.end(&client, &mut candidate, state).await;
                }
            }
            let begun = Instant::now();
            let attempt = attempt(&client, &mut candidate, begun);
            let attempt = match tokio::time::timeout(self.renew_deadline, attempt).await {
                Ok(attempt) => attempt,
                Err(_) => Err(LeaseClientError::Answer("it did not come in time".to_owned())),
            };
            match attempt {
                Ok(LeaseAttempt::Holds) => state = LeadershipState::Leads { renewed: begun },
                Ok(LeaseAttempt::HeldBy(holder)) => match &mut state {
                    LeadershipState::Leads { .. } => return Ok(lost()),
                    LeadershipState::StandsBy { leader } if *leader == holder => {}
                    LeadershipState::StandsBy { leader } => {
                        println!("stands by: {holder} leads");
                        *leader = holder;
                    }
                },
                Ok(LeaseAttempt::Conflict) => println!("another wrote lease {client} first"),
                Err(error) => println!("failed to hold lease {client}: {}", with_causes(&error)),
            }
            if let LeadershipState::Leads { renewed } = state
                && renewed.elapsed() >= self.renew_deadline
            {
                return Ok(lost());
            }
        }
    }

    fn check(&self) -> Result<(), DemoError> {
        let in_order = self.retry_period < self.renew_deadline
            && self.renew_deadline < self.lease_duration
            && !self.retry_period.is_zero();
        let whole = self.lease_duration.subsec_nanos() == 0;
        if in_order && whole { Ok(()) } else { Err(DemoError::ElectionPeriods) }
    }

    async fn end(
        &self,
        client: &LeaseClient,
        candidate: &mut LeaderCandidate,
        state: LeadershipState,
    ) -> Result<u8, DemoError> {
        match state {
            LeadershipState::Leads { .. } if self.release_on_cancel => {
                release(client, candidate).await?;
            }
            LeadershipState::Leads { .. } => println!("ended while it held lease {client}"),
            LeadershipState::StandsBy { .. } => println!("ended while it stood by"),
        }
        Ok(0)
    }
}

/// As programs on client-go do: one that has lost its Lease ends, so that it does nothing more as
/// the leader it was.
fn lost() -> u8 {
    println!("lost the lease");
    1
}

/// Reads the Lease, and renews or takes it if it is this candidate's to have.
async fn attempt(
    client: &LeaseClient,
    candidate: &mut LeaderCandidate,
    now: Instant,
) -> Result<LeaseAttempt, LeaseClientError> {
    let Some(lease) = client.get().await? else {
        let written = client.create(candidate.taken(None, SystemTime::now())).await?;
        return Ok(took(written, "there was no lease"));
    };
    let clock = SystemTime::now();
    Ok(match candidate.observe(&lease.spec, now) {
        CandidateMove::StandBy => LeaseAttempt::HeldBy(lease.spec.holder_identity),
        CandidateMove::Take => {
            let written = client.replace(&lease, candidate.taken(Some(&lease.spec), clock)).await?;
            took(written, &history(&lease.spec, clock))
        }
        CandidateMove::Renew => {
            match client.replace(&lease, candidate.renewed(&lease.spec, clock)).await? {
                LeaseWrite::Written => LeaseAttempt::Holds,
                LeaseWrite::Conflict => LeaseAttempt::Conflict,
            }
        }
    })
}

fn took(written: LeaseWrite, history: &str) -> LeaseAttempt {
    match written {
        LeaseWrite::Written => {
            println!("leads: {history}");
            LeaseAttempt::Holds
        }
        LeaseWrite::Conflict => LeaseAttempt::Conflict,
    }
}

/// Gives the Lease back, if it is still this candidate's.
async fn release(
    client: &LeaseClient,
    candidate: &mut LeaderCandidate,
) -> Result<(), LeaseClientError> {
    let Some(lease) = client.get().await? else { return Ok(()) };
    if candidate.observe(&lease.spec, Instant::now()) != CandidateMove::Renew {
        println!("lease {client} has another holder");
        return Ok(());
    }
    match client.replace(&lease, candidate.released(&lease.spec, SystemTime::now())).await? {
        LeaseWrite::Written => println!("gave lease {client} back"),
        LeaseWrite::Conflict => println!("another wrote lease {client} first"),
    }
    Ok(())
}

fn with_causes(error: &LeaseClientError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// What became of the lease before it was taken, for the log.
fn history(record: &ElectionRecord, now: SystemTime) -> String {
    let age = record.age(now).unwrap_or_default();
    // milliseconds are enough for a reader
    let age = Duration::from_millis(u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
    let age = humantime::format_duration(age);
    match record.holder_identity.as_str() {
        "" => format!("the lease was given back {age} ago"),
        holder => format!("{holder} renewed the lease {age} ago"),
    }
}
