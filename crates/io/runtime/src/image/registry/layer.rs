//! One layer on its way to the disk: written and digested while it comes, taken up again where the
//! connection broke, and never in memory as a whole. The file has no name, so that a pull that is
//! killed leaves nothing.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::header;
use http::{Method, StatusCode};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::error::RegistryError;
use super::session::{RegistryRequest, RegistryResponse, RegistrySession};
use crate::image::ImageError;
use crate::image::archive::nameless_file;
use crate::image::digest::Sha256Digest;

/// Pieces that wait for the disk; the connection waits when there are more.
const PIECES_WAITING_MAX: usize = 16;

/// Times that one layer may break off, though it goes on each time.
const BREAKS_MAX: u32 = 100;

/// Why a layer did not come.
#[derive(Debug)]
pub(super) enum FetchError {
    Registry(RegistryError),
    Disk(ImageError),
}

impl From<RegistryError> for FetchError {
    fn from(error: RegistryError) -> Self {
        Self::Registry(error)
    }
}

/// The thread that writes.
struct LayerWriter {
    pieces: mpsc::Sender<LayerPiece>,
    done: JoinHandle<io::Result<(File, Sha256Digest)>>,
}

enum LayerPiece {
    Data(Bytes),
    /// The layer comes from its beginning again.
    Restart,
}

/// How an answer's body ended.
enum BodyEnd {
    Whole,
    Broken(RegistryError),
}

/// Fetches the layer of this digest and size into a nameless file in `dir`. `arrived` is told how
/// many bytes are here.
pub(super) async fn fetch(
    session: &RegistrySession<'_>,
    digest: &Sha256Digest,
    size: u64,
    dir: &Path,
    arrived: &(dyn Fn(u64) + Send + Sync),
) -> Result<Arc<File>, FetchError> {
    let what = format!("layer {digest}");
    let path = format!("/blobs/{digest}");
    let writer = LayerWriter::start(dir).map_err(|error| disk(dir, error))?;
    let mut received = 0;
    let (mut breaks, mut useless_breaks) = (0, 0);
    while received < size {
        let ask = RegistryRequest {
            method: Method::GET,
            path: &path,
            accept: "*/*",
            from: received,
            what: &what,
        };
        let answer = session.ask(&ask).await?;
        let goes_on = received == 0 || continues(&answer, received);
        if !goes_on {
            received = 0;
            writer.send(LayerPiece::Restart).await;
        }
        let before = received;
        let ended = pour(session, answer, size, &what, &writer, &mut received, arrived).await?;
        let problem = match ended {
            BodyEnd::Whole if received == size => break,
            BodyEnd::Whole => "the answer is too short".to_owned(),
            BodyEnd::Broken(error) if error.may_pass() => error.to_string(),
            BodyEnd::Broken(error) => return Err(error.into()),
        };
        // a connection that breaks now and then, and goes on in between, is good enough
        breaks += 1;
        useless_breaks = if goes_on && received > before { 1 } else { useless_breaks + 1 };
        let enough = breaks >= BREAKS_MAX || useless_breaks >= session.settings.attempts_max;
        if enough || writer.pieces.is_closed() {
            writer.finish(dir).await?; // the disk's error comes first
            return Err(RegistryError::BrokenOff { what, received, size, problem }.into());
        }
        tracing::debug!(what, received, size, problem, "a layer broke off; it is taken up again");
        tokio::time::sleep(session.settings.first_pause).await;
    }
    let (file, found) = writer.finish(dir).await?;
    if found != *digest {
        let problem = format!("it has the digest {found}: damaged or forged");
        return Err(RegistryError::Content { what, problem }.into());
    }
    Ok(Arc::new(file))
}

/// Hands the body's bytes to the writer.
async fn pour(
    session: &RegistrySession<'_>,
    mut answer: RegistryResponse,
    size: u64,
    what: &str,
    writer: &LayerWriter,
    received: &mut u64,
    arrived: &(dyn Fn(u64) + Send + Sync),
) -> Result<BodyEnd, RegistryError> {
    loop {
        match session.transport.next_piece(&answer.host, &mut answer.body).await {
            Ok(Some(bytes)) => {
                *received += bytes.len() as u64;
                if *received > size {
                    let problem =
                        format!("more comes than the {size} bytes that the manifest states");
                    return Err(RegistryError::Content { what: what.to_owned(), problem });
                }
                writer.send(LayerPiece::Data(bytes)).await;
                if writer.pieces.is_closed() {
                    return Ok(BodyEnd::Whole); // the disk failed; `finish` says how
                }
                arrived(*received);
            }
            Ok(None) => return Ok(BodyEnd::Whole),
            Err(error) => return Ok(BodyEnd::Broken(error)),
        }
    }
}

/// Whether an answer goes on at this byte. A registry that knows no ranges sends all again.
fn continues(answer: &RegistryResponse, from: u64) -> bool {
    let range = answer.headers.get(header::CONTENT_RANGE).and_then(|value| value.to_str().ok());
    let begins = range.is_some_and(|range| range.trim().starts_with(&format!("bytes {from}-")));
    answer.status == StatusCode::PARTIAL_CONTENT && begins
}

impl LayerWriter {
    fn start(dir: &Path) -> io::Result<Self> {
        let mut file = nameless_file(dir)?;
        let (pieces, mut incoming) = mpsc::channel(PIECES_WAITING_MAX);
        let done = tokio::task::spawn_blocking(move || {
            let mut hash = Sha256::new();
            while let Some(piece) = incoming.blocking_recv() {
                match piece {
                    LayerPiece::Data(bytes) => {
                        hash.update(&bytes);
                        file.write_all(&bytes)?;
                    }
                    LayerPiece::Restart => {
                        hash = Sha256::new();
                        file.rewind()?;
                        file.set_len(0)?;
                    }
                }
            }
            Ok((file, Sha256Digest::from_hasher(hash)))
        });
        Ok(Self { pieces, done })
    }

    /// A piece that is not taken is told by `finish`.
    async fn send(&self, piece: LayerPiece) {
        let _closed = self.pieces.send(piece).await;
    }

    /// Waits until everything is written.
    async fn finish(self, dir: &Path) -> Result<(File, Sha256Digest), FetchError> {
        drop(self.pieces);
        let written = self.done.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        written.map_err(|error| disk(dir, error))
    }
}

fn disk(dir: &Path, source: io::Error) -> FetchError {
    FetchError::Disk(ImageError::Store {
        operation: "write a layer in",
        path: dir.to_owned(),
        source,
    })
}
