//! Where a backup comes from: the API of an engine that runs, or the store of one that does not.

use std::path::Path;

use anyhow::{Context, anyhow, bail};
use futures::{AsyncRead, AsyncReadExt};
use kube::Client;
use rekindle_api_server::SystemClock;
use rekindle_redb_disk::inspect;
use rekindle_store::backup::{BackupDecoder, BackupFile, BackupHeader, BackupPart};
use rekindle_store::{DiskContent, DiskError};

use super::engine_keys::{EngineKeys, files_of};
use super::look_quietly;
use super::target::{BackupTarget, BackupWriter, WrittenBackup};
use crate::engine::data_dir::STORE;
use crate::engine::{lock, unfinished_restore};

/// The path of the API that answers a backup.
const PATH: &str = "/backup";
/// How many bytes are read at a time.
const READ_BYTES: usize = 64 << 10;

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

/// Verifies what arrives, and writes it again with the files. The file gets its name after the
/// last byte.
async fn receive(
    answer: impl AsyncRead,
    files: &[BackupFile],
    target: BackupTarget,
) -> anyhow::Result<WrittenBackup> {
    let mut answer = std::pin::pin!(answer);
    let mut decoder = BackupDecoder::default();
    let mut target = Some(target);
    let mut writer: Option<BackupWriter> = None;
    let mut chunk = vec![0; READ_BYTES];
    loop {
        let read = answer.read(&mut chunk).await?;
        if read == 0 {
            break;
        }
        decoder.push(&chunk[..read]);
        while let Some(part) = decoder.next_part()? {
            match (part, &mut writer) {
                (BackupPart::Header(header), None) => {
                    let target = target.take().context("a backup has one header")?;
                    writer = Some(target.begin(header, files)?);
                }
                (BackupPart::Object(object), Some(writer)) => writer.object(&object)?,
                (BackupPart::Header(_) | BackupPart::File(_) | BackupPart::Object(_), _) => {
                    bail!("it is not what an engine answers");
                }
            }
        }
    }
    decoder.finish()?;
    writer.context("the backup has no header")?.finish()
}

/// What an engine that does not run has left on its disk.
struct EngineDisk {
    content: DiskContent,
    keys: Option<EngineKeys>,
}

impl EngineDisk {
    /// Keeps engines out while it reads, so that keys and objects are of one moment. A damaged
    /// store is refused: a backup of it would look whole.
    fn read(data_dir: &Path, without_keys: bool) -> anyhow::Result<Self> {
        let engines_kept_out = lock::keep_engines_out(data_dir)?;
        unfinished_restore::refuse(data_dir)?;
        let content = read_store(&data_dir.join(STORE))?;
        let keys = if without_keys { None } else { EngineKeys::read(data_dir)? };
        drop(engines_kept_out);
        Ok(Self { content, keys })
    }
}

fn read_store(store: &Path) -> anyhow::Result<DiskContent> {
    if !store.exists() {
        bail!(
            "there is no {}: name the data directory of an engine with --data-dir",
            store.display()
        );
    }
    let read = look_quietly(|| inspect(store));
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

/// Writes the objects and the keys of a data directory that no engine holds.
pub fn from_disk(
    data_dir: &Path,
    without_keys: bool,
    target: BackupTarget,
) -> anyhow::Result<WrittenBackup> {
    let EngineDisk { content, keys } = EngineDisk::read(data_dir, without_keys)?;
    let header = BackupHeader {
        revision: content.revision,
        created_at_micros: SystemClock::start().now().as_micros(),
        files: 0,
        objects: content.objects.len() as u64,
    };
    let mut writer = target.begin(header, files_of(keys.as_ref()))?;
    for object in &content.objects {
        writer.object(object)?;
    }
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::data_dir::{DataDir, PKI};

    #[test]
    fn keys_and_objects_are_read_while_no_engine_can_change_them() {
        let folder = tempfile::tempdir().unwrap();
        let held = DataDir::hold(folder.path()).unwrap();
        // without the lock these two would be refused, too
        std::fs::write(held.join(STORE), "no store").unwrap();
        std::fs::create_dir(held.join(PKI)).unwrap();
        std::fs::write(held.join(PKI).join("ca.crt"), "half of a pair").unwrap();
        let refused = || EngineDisk::read(folder.path(), false).err().unwrap().to_string();
        assert!(refused().contains("is held by an engine"), "{}", refused());
        drop(held);
        assert!(refused().contains("store.redb is damaged"), "{}", refused());
    }
}
