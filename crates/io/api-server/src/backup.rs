//! A backup as an answer. A task of its own sends it, so that a client that takes nothing cannot
//! keep it: what was overwritten since lives as long as the backup.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Response};
use rekindle_api::status::ApiError;
use rekindle_store::backup::{BackupError, BackupStream};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::body::{FrontBody, FrontPhase, LogStream};
use super::front::Front;
use super::response::{respond, stream};

/// How many backups may be read at a time.
pub(super) const BACKUPS_MAX: usize = 2;
/// Seconds after which a client that wants one more tries again.
const RETRY_SECONDS: u32 = 10;
/// The client takes a piece of a backup within this time.
const PIECE_WITHIN: Duration = Duration::from_secs(60);
/// The client takes all of a backup within this time.
const ALL_WITHIN: Duration = Duration::from_secs(3600);
const CONTENT_TYPE: &str = "application/octet-stream";

/// What the task has for the client.
enum BackupPiece {
    Bytes(Bytes),
    /// All bytes were before it. Without it the client sees that the answer was cut off.
    End,
}

impl Front {
    /// The permit comes before the snapshot: a request that is refused costs nothing, nor does one
    /// for the head alone.
    pub(super) async fn backup(&self, method: &Method) -> Response<FrontBody> {
        if *method == Method::HEAD {
            return stream(FrontBody::full(Bytes::new()), CONTENT_TYPE);
        }
        let Ok(permit) = Arc::clone(&self.backups).try_acquire_owned() else {
            let problem = format!("{BACKUPS_MAX} backups are being read already");
            return respond(ApiError::too_many_requests(problem, RETRY_SECONDS).into());
        };
        let (store, now) = (self.api.store().clone(), self.now());
        let snapshot = tokio::task::spawn_blocking(move || store.backup(now.as_micros())).await;
        let backup = match snapshot {
            Ok(Ok(backup)) => backup,
            Ok(Err(error)) => return respond(ApiError::from(error).into()),
            Err(error) => return respond(ApiError::internal(error).into()),
        };
        let (sender, receiver) = mpsc::channel(1);
        let front = self.clone();
        tokio::spawn(async move {
            send(backup, sender, front.phase.subscribe()).await;
            drop(permit);
            front.tell_of_burst();
        });
        stream(FrontBody::stream(pieces(receiver)), CONTENT_TYPE)
    }
}

/// Sends all of it; ends early when the client is gone or too slow, or the front goes down.
async fn send(
    backup: BackupStream,
    sender: mpsc::Sender<BackupPiece>,
    mut phase: watch::Receiver<FrontPhase>,
) {
    tokio::select! {
        sent = timeout(ALL_WITHIN, send_all(backup, sender)) => match sent {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "failed to make a backup"),
            Err(_) => tracing::info!("ended a backup that its client took too slowly"),
        },
        // an error means that the front is gone, which is the same
        _ = phase.wait_for(|phase| *phase == FrontPhase::Stopping) => {}
    }
}

async fn send_all(
    backup: BackupStream,
    sender: mpsc::Sender<BackupPiece>,
) -> Result<(), BackupError> {
    let pieces = backup.map(|bytes| bytes.map(BackupPiece::Bytes));
    for piece in pieces.chain([Ok(BackupPiece::End)]) {
        match timeout(PIECE_WITHIN, sender.send(piece?)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Ok(()), // the client is gone
            Err(_) => {
                tracing::info!("ended a backup that its client did not take");
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The pieces as the client takes them, and an error where they end early.
fn pieces(receiver: mpsc::Receiver<BackupPiece>) -> LogStream {
    let next = |receiver: Option<mpsc::Receiver<BackupPiece>>| async move {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(BackupPiece::Bytes(bytes)) => Some((Ok(bytes), Some(receiver))),
            Some(BackupPiece::End) => None,
            None => Some((Err(io::Error::other("the backup ended early")), None)),
        }
    };
    futures::stream::unfold(Some(receiver), next).boxed()
}
