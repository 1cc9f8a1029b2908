//! Other API servers, which answer for the group versions of their APIServices. The core says where
//! they are; this asks whether they answer, and what they serve.
//!
//! ```text
//!  changes of APIServices, Services, EndpointSlices --> which servers, where --> new, or moved
//!                                                                                  |
//!       30 s later, or after a back-off <-- answer, or none --> core  <--------- probe
//! ```

mod dialer;
mod probe;

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use futures::stream::{SelectAll, select_all};
use futures::{FutureExt, StreamExt};
use rekindle_api::api_services::{FollowedServer, ServerDiscovery};
use rekindle_kinds::api_service::ServerAvailability;
use rekindle_store::StoreWatch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

pub(crate) use dialer::ServerDialer;

use super::front::Front;

/// How often a server is asked that answers: nothing else tells that it has gone. As upstream.
const ASKED_EVERY: Duration = Duration::from_secs(30);
/// The pause after the first failure. It doubles up to the time above.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// After the servers could not be followed.
const AFTER_FAILURE: Duration = Duration::from_secs(30);

/// Runs until `stop` resolves, or the store ends.
pub async fn follow_api_servers(front: Front, stop: impl Future<Output = ()>) {
    let mut stop = std::pin::pin!(stop);
    let mut follower = ServerFollower { front, servers: BTreeMap::new(), probes: JoinSet::new() };
    loop {
        let changes = match follower.front.api().watch_followed_servers() {
            Ok(watches) => select_all(watches),
            Err(error) => {
                tracing::warn!(%error, "failed to watch APIServices");
                tokio::select! {
                    () = &mut stop => return,
                    () = sleep(AFTER_FAILURE) => continue,
                }
            }
        };
        tokio::select! {
            () = &mut stop => return,
            end = follower.run(changes) => match end {
                FollowEnd::Behind => {}
                FollowEnd::StoreClosed => return,
            },
        }
    }
}

/// Why no more changes come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FollowEnd {
    /// A watch fell behind the store's history: begin again.
    Behind,
    /// The store has ended.
    StoreClosed,
}

struct ServerFollower {
    front: Front,
    /// By the names of their APIServices.
    servers: BTreeMap<String, ServerState>,
    probes: JoinSet<ServerAnswer>,
}

struct ServerState {
    server: FollowedServer,
    /// When it is asked next; none while it is asked, or cannot be.
    due: Option<Instant>,
    /// Without an answer in between.
    failures: u32,
}

/// What became of a probe.
struct ServerAnswer {
    server: FollowedServer,
    said: Result<ServerDiscovery, ServerAvailability>,
}

impl ServerFollower {
    async fn run(&mut self, mut changes: SelectAll<StoreWatch>) -> FollowEnd {
        self.look();
        loop {
            self.ask_due().await;
            let next = self.servers.values().filter_map(|state| state.due).min();
            tokio::select! {
                change = changes.next() => match change {
                    // one look at what stands covers every change that is there
                    Some(Ok(_)) => {
                        while let Some(Some(Ok(_))) = changes.next().now_or_never() {}
                        self.look();
                    }
                    Some(Err(_)) => return FollowEnd::Behind,
                    None => return FollowEnd::StoreClosed,
                },
                Some(answer) = self.probes.join_next() => match answer {
                    Ok(answer) => self.answered(answer).await,
                    Err(error) => tracing::error!(%error, "failed to ask an API server: its task panicked"),
                },
                () = until(next) => {}
            }
        }
    }

    /// Takes up servers that are new or elsewhere, and forgets those that are gone.
    fn look(&mut self) {
        let servers = match self.front.api().followed_servers() {
            Ok(servers) => servers,
            Err(error) => return tracing::warn!(%error, "failed to read APIServices"),
        };
        let mut before = std::mem::take(&mut self.servers);
        for server in servers {
            let known = before.remove(&server.name).filter(|known| known.server == server);
            let now = Instant::now();
            let state = known.unwrap_or_else(|| ServerState {
                server: server.clone(),
                due: Some(now),
                failures: 0,
            });
            self.servers.insert(server.name, state);
        }
    }

    /// Asks the servers that are due. One that has no endpoint is not asked: a change tells when it
    /// has.
    async fn ask_due(&mut self) {
        let now = Instant::now();
        let mut refused = Vec::new();
        for state in
            self.servers.values_mut().filter(|state| state.due.is_some_and(|due| due <= now))
        {
            state.due = None;
            let (front, server) = (self.front.clone(), state.server.clone());
            match &server.endpoints {
                Err(availability) => refused.push((server.clone(), availability.clone())),
                Ok(_) => {
                    self.probes.spawn(async move {
                        let said = probe::probe(&front, &server).await;
                        ServerAnswer { server, said }
                    });
                }
            }
        }
        for (server, availability) in refused {
            self.record(&server, Err(availability)).await;
        }
    }

    async fn answered(&mut self, answer: ServerAnswer) {
        let known = self.servers.get_mut(&answer.server.name);
        // it may be elsewhere by now, and is asked there
        let Some(state) = known.filter(|known| known.server == answer.server) else { return };
        state.failures = if answer.said.is_ok() { 0 } else { state.failures.saturating_add(1) };
        state.due = Some(Instant::now() + pause_after(state.failures));
        self.record(&answer.server, answer.said).await;
    }

    async fn record(
        &self,
        server: &FollowedServer,
        said: Result<ServerDiscovery, ServerAvailability>,
    ) {
        let problem = said.as_ref().err().map(|availability| availability.message.clone());
        let (api, now) = (self.front.api(), self.front.now());
        let written = async {
            match api.record_server(server, said, now)? {
                Some(pending) => Ok(pending.await.map(|_| true)?),
                None => Ok::<_, rekindle_api::status::ApiError>(false),
            }
        };
        match (written.await, problem) {
            (Ok(true), Some(problem)) => {
                tracing::warn!(api_service = server.name, problem, "failed to reach an API server");
            }
            (Ok(_), _) => {}
            (Err(error), _) => {
                tracing::warn!(api_service = server.name, %error, "failed to persist the status of an APIService");
            }
        }
    }
}

fn pause_after(failures: u32) -> Duration {
    match failures.checked_sub(1) {
        None => ASKED_EVERY,
        Some(doubled) => ASKED_EVERY.min(FIRST_PAUSE.saturating_mul(1 << doubled.min(8))),
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_answer_is_asked_less_and_less_often() {
        let seconds = |failures| pause_after(failures).as_secs();
        let pauses: Vec<u64> = (1..=7).map(seconds).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!((seconds(0), seconds(u32::MAX)), (30, 30));
    }
}
