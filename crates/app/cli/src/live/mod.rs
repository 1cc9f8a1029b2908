//! The table that `rekindle up` keeps on the screen and `rekindle status` prints once: every pod
//! with its place on the ladder.

mod board;
mod layout;
mod pod_row;
mod screen;

use std::sync::Arc;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::{self};
use kube::{Api, Client};
use rekindle_object_watch::watcher;
use rekindle_types::Tick;
use rekindle_types::v1alpha1::RestartLedger;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Duration, Instant, sleep_until};

pub use board::Board;
use screen::TableScreen;
pub use screen::render;

/// One change of what the board shows.
enum BoardChange {
    Pod(Box<watcher::Event<Pod>>),
    Ledger(Box<watcher::Event<RestartLedger>>),
}

/// Between two drawings for changes, at least: what many pods do at once is drawn once.
const DRAWN_EVERY: Duration = Duration::from_millis(100);

/// Keeps the table up to date until the future is dropped. Draws when something changes or the
/// terminal is resized, and, on a terminal, when a time that is shown counts on.
pub async fn follow(client: Client, now: Arc<dyn Fn() -> Tick + Send + Sync>) {
    let pods = watcher(Api::<Pod>::all(client.clone()), watcher::Config::default())
        .filter_map(async |event| event.ok().map(|event| BoardChange::Pod(Box::new(event))));
    let ledgers = watcher(Api::<RestartLedger>::all(client), watcher::Config::default())
        .filter_map(async |event| event.ok().map(|event| BoardChange::Ledger(Box::new(event))));
    let mut changes = Box::pin(stream::select(pods.boxed(), ledgers.boxed()));
    let mut board = Board::default();
    let mut screen = TableScreen::of_stdout();
    // without it the table is redrawn at its next change
    let mut resizes = signal(SignalKind::window_change()).ok();
    let mut due = None;
    let mut drawn_at = Instant::now();
    loop {
        tokio::select! {
            change = changes.next() => match change {
                Some(change) => {
                    board.apply(change);
                    due = Some(drawn_at + DRAWN_EVERY);
                }
                None => return,
            },
            () = until(due) => {
                screen.draw(board.rows(now()));
                drawn_at = Instant::now();
                let counts = screen.counts().then(|| board.counts_on_after(now())).flatten();
                due = counts.map(|after| drawn_at + after.to_std());
            }
            () = next_resize(&mut resizes) => due = Some(drawn_at),
        }
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

async fn next_resize(resizes: &mut Option<Signal>) {
    match resizes {
        Some(resizes) => {
            resizes.recv().await;
        }
        None => std::future::pending().await,
    }
}

impl Board {
    fn apply(&mut self, change: BoardChange) {
        use watcher::Event::{Apply, Delete, Init, InitApply, InitDone};
        match change {
            BoardChange::Pod(event) => match *event {
                Apply(pod) | InitApply(pod) => self.put_pod(&pod),
                Delete(pod) => self.remove_pod(&pod),
                Init => self.clear_pods(),
                InitDone => {}
            },
            BoardChange::Ledger(event) => match *event {
                Apply(ledger) | InitApply(ledger) => self.put_ledger(ledger),
                Delete(ledger) => self.remove_ledger(&ledger),
                Init => self.clear_ledgers(),
                InitDone => {}
            },
        }
    }
}
