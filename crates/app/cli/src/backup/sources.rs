//! Where a backup comes from: the API of an engine that runs, or the store of one that does not.

use std::path::Path;

use anyhow::{Context, anyhow, bail};
use futures::{AsyncRead, AsyncReadExt};
use kube::Client;
use rekindle_api_server::SystemClock;
use rekindle_redb_disk::inspect;
use rekindle_store::backup::{BackupDecoder, BackupFile, BackupHeader, BackupPart};
use rekindle_store::{DiskContent, DiskError};

use super::look_quietly;
use super::target::{BackupTarget, BackupWriter};
use crate::engine::data_dir::STORE;
use crate::engine::{lock, unfinished_restore};

/// The path of the API that answers a backup.
const PATH: &str = "/backup";
/// So much is read at a time.
const READ_BYTES: usize = 64 << 10;

/// A backup that was written.
pub struct WrittenBackup {
    /// What it says of itself.
    pub header: BackupHeader,
    /// Its size.
    pub bytes: u64,
}

/// Writes the objects that an engine answers with, as they come, and these files.
pub async fn from_api(
    client: &Client,
    files: &[BackupFile],
    target: BackupTarget,
) -> anyhow::Result<WrittenBackup> {
    let request = http::Request::get(PATH).body(Vec::new()).context("ask the engine")?;
    let answer = client.request_stream(request).await.context("ask the engine for a backup")?;
    receive(answer, files, target).await.context("receive the backup from the engine")
}

/// What arrives is verified, and written again with the files. It gets its name after the last
/// byte.
async fn receive(
    answer: impl AsyncRead,
    files: &[BackupFile],
    target: BackupTarget,
) -> anyhow::Result<WrittenBackup> {
    let mut answer = std::pin::pin!(answer);
    let mut decoder = BackupDecoder::default();
    let mut target = Some(target);
    let mut writing: Option<(BackupHeader, BackupWriter)> = None;
    let mut chunk = vec![0; READ_BYTES];
    loop {
        let read = answer.read(&mut chunk).await?;
        if read == 0 {
            break;
        }
        decoder.push(&chunk[..read]);
        while let Some(part) = decoder.next_part()? {
            match (part, &mut writing) {
                (BackupPart::Header(header), None) => {
                    let target = target.take().context("a backup has one header")?;
                    writing = Some((header, target.begin(header, files)?));
                }
                (BackupPart::Object(object), Some((_, writer))) => writer.object(&object)?,
                (BackupPart::Header(_) | BackupPart::File(_) | BackupPart::Object(_), _) => {
                    bail!("it is not what an engine answers");
                }
            }
        }
    }
    decoder.finish()?;
    let (header, writer) = writing.context("the backup has no header")?;
    Ok(WrittenBackup { header, bytes: writer.finish()? })
}

/// Reads a store without changing it, and refuses one with damage: a backup of it would look whole.
/// Engines wait for the read alone.
fn read_store(data_dir: &Path, store: &Path) -> anyhow::Result<DiskContent> {
    let engines_kept_out = lock::keep_engines_out(data_dir)?;
    unfinished_restore::refuse(data_dir)?;
    let read = look_quietly(|| inspect(store));
    drop(engines_kept_out);
    let damaged = |fault: String| {
        anyhow!(
            "{} is damaged ({fault}), and a backup of it would look whole: see `rekindle store check`",
            store.display()
        )
    };
    let content = match read {
        Ok(content) => content,
        Err(DiskError::Damaged { what, .. }) => return Err(damaged(what)),
        Err(error) => return Err(error).context("read the store"),
    };
    match content.revision_faults().first() {
        Some(fault) => Err(damaged(format!("{} {}", fault.key, fault.problem))),
        None => Ok(content),
    }
}

/// Writes the objects of a data directory that no engine holds, and these files.
pub fn from_disk(
    data_dir: &Path,
    files: &[BackupFile],
    target: BackupTarget,
) -> anyhow::Result<WrittenBackup> {
    let store = data_dir.join(STORE);
    if !store.exists() {
        bail!(
            "there is no {}: name the data directory of an engine with --data-dir",
            store.display()
        );
    }
    let content = read_store(data_dir, &store)?;
    let header = BackupHeader {
        revision: content.revision,
        created_at_micros: SystemClock::start().now().as_micros(),
        files: 0,
        objects: content.objects.len() as u64,
    };
    let mut writer = target.begin(header, files)?;
    for object in &content.objects {
        writer.object(object)?;
    }
    Ok(WrittenBackup { header, bytes: writer.finish()? })
}
