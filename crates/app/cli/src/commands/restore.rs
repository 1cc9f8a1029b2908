//! `rekindle restore`: makes the store of a data directory from a backup.

use std::process::ExitCode;

use anyhow::Context;
use serde_json::json;

use crate::args::{OutputArg, RestoreArgs};
use crate::backup::content::{self, BackupContent};
use crate::backup::restore::{RestoreOptions, RestoredStore, check, restore};
use crate::engine::data_dir::DataDir;
use crate::output;

/// Carries the command out. The whole backup is verified before anything is written.
pub fn run(args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    let backup = BackupContent::read(&args.file)?;
    check(&backup)?;
    let (header, keys) = (backup.header, names_of_keys(&backup));
    let data_dir = DataDir::hold(&args.data_dir.data_dir)?;
    let options =
        RestoreOptions { replaces_existing: args.force, bump_revision: args.bump_revision };
    let RestoredStore { revision, kept_aside, notes } = restore(&data_dir, backup, options)?;
    for note in notes {
        output::note(format!("note: {note}"));
    }
    let created_at = content::created_at(&header);
    output::print(&match args.output {
        OutputArg::Text => {
            let mut text = format!(
                "restored {} objects of revision {} of {created_at} {} into {}; revisions go on above {revision}\n",
                header.objects,
                header.revision,
                if keys.is_empty() { "without keys" } else { "and the engine's keys" },
                data_dir.path().display(),
            );
            for file in &kept_aside {
                text += &format!("kept {}\n", file.display());
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
                "keptAside": kept_aside,
            });
            serde_json::to_string_pretty(&summary).context("write the summary")? + "\n"
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn names_of_keys(backup: &BackupContent) -> Vec<String> {
    backup.files.iter().map(|file| file.name.clone()).collect()
}
