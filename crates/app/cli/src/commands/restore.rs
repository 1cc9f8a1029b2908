//! `rekindle restore`: makes the store of a data directory from a backup.

use std::process::ExitCode;

use anyhow::Context;
use rekindle_api_server::SystemClock;
use serde_json::json;

use crate::args::{OutputArg, RestoreArgs};
use crate::backup::content::{self, VerifiedBackup};
use crate::backup::engine_keys::files_of;
use crate::backup::restore::{ExistingFiles, RestoredRange, RestoredStore, restore};
use crate::engine::data_dir::DataDir;
use crate::engine::encryption;
use crate::output;

/// Carries the command out. The whole backup is verified before anything is written.
pub fn run(args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    let encryption = encryption::read(args.encryption.encryption_provider_config.as_deref())?;
    let backup = VerifiedBackup::read(&args.file, &encryption)?;
    let data_dir = DataDir::hold(&args.data_dir.data_dir)?;
    let existing = if args.force { ExistingFiles::Replace } else { ExistingFiles::Refuse };
    let now = SystemClock::start().now();
    let restored = restore(&data_dir, &backup, existing, now)?;
    if let Some(why) = &restored.unread_store {
        output::note(format!("note: the store that was there cannot be read: {why}"));
    }
    if let Some(RestoredRange { before, range }) = &restored.new_range {
        output::note(format!(
            "note: the range of Services is {range}, as in the backup; the data directory had {before:?}"
        ));
    }
    output::print(&summary(args, &data_dir, &backup, &restored)?)?;
    Ok(ExitCode::SUCCESS)
}

fn summary(
    args: &RestoreArgs,
    data_dir: &DataDir,
    backup: &VerifiedBackup,
    restored: &RestoredStore,
) -> anyhow::Result<String> {
    let RestoredStore { revision, kept, .. } = restored;
    let header = backup.header();
    let keys: Vec<&String> = files_of(backup.keys()).iter().map(|file| &file.name).collect();
    let created_at = content::created_at(header);
    Ok(match args.output {
        OutputArg::Text => {
            let mut text = format!(
                "restored {} objects of revision {} of {created_at} {} into {}; revisions go on above {revision}\n",
                header.objects,
                header.revision,
                if keys.is_empty() { "without keys" } else { "and the engine's keys" },
                data_dir.path().display(),
            );
            for kept in kept {
                text += &format!("kept {}\n", kept.display());
            }
            text
        }
        OutputArg::Json => {
            let summary = json!({
                "file": args.file,
                "dataDir": data_dir.path(),
                "createdAt": created_at,
                "backupRevision": header.revision.0,
                "revision": revision.0,
                "objects": header.objects,
                "keys": keys,
                "keptAside": kept,
            });
            serde_json::to_string_pretty(&summary).context("write the summary")? + "\n"
        }
    })
}
