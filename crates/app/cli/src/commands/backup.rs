//! `rekindle backup`: all objects of one revision, with the engine's keys, in a file.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use rekindle_store::backup::BackupFile;
use serde_json::json;

use crate::args::{BackupArgs, OutputArg};
use crate::backup::engine_keys::{EngineKeys, files_of};
use crate::backup::sources::{self, WrittenBackup};
use crate::backup::target::BackupTarget;
use crate::backup::{content, is_standard_stream};
use crate::client;
use crate::holder::DataDirHolder;
use crate::output;

/// Carries the command out: through the API of the engine that runs, or from the disk.
pub fn run(args: &BackupArgs) -> anyhow::Result<ExitCode> {
    let target = BackupTarget::open(&args.file, args.force)?;
    let data_dir = &args.data_dir.data_dir;
    let (keys, written) = match &args.kubeconfig {
        // the keys of this machine's engine are not those of the API's
        Some(kubeconfig) => (None, through_api(kubeconfig, args, &[], target)?),
        None => {
            let keys = if args.without_keys { None } else { EngineKeys::read(data_dir)? };
            let files = files_of(keys.as_ref());
            let written = match DataDirHolder::find(data_dir)? {
                Some(_) => through_api(&data_dir.join("kubeconfig"), args, files, target)?,
                None => sources::from_disk(data_dir, files, target)?,
            };
            (keys, written)
        }
    };
    tell(args, files_of(keys.as_ref()), &written)?;
    Ok(ExitCode::SUCCESS)
}

fn through_api(
    kubeconfig: &Path,
    args: &BackupArgs,
    files: &[BackupFile],
    target: BackupTarget,
) -> anyhow::Result<WrittenBackup> {
    client::block_on(async {
        let client = client::connect_with_context(kubeconfig, args.context.clone()).await?;
        sources::from_api(&client, files, target).await
    })
}

fn tell(args: &BackupArgs, files: &[BackupFile], written: &WrittenBackup) -> anyhow::Result<()> {
    let WrittenBackup { header, bytes } = written;
    let text = match args.output {
        OutputArg::Text => format!(
            "backed up {} objects at revision {} {} to {} ({bytes} bytes)",
            header.objects,
            header.revision,
            if files.is_empty() { "without keys" } else { "and the engine's keys" },
            if is_standard_stream(&args.file) {
                "standard output".to_owned()
            } else {
                args.file.display().to_string()
            },
        ),
        OutputArg::Json => {
            let summary = json!({
                "file": args.file,
                "createdAt": content::created_at(header),
                "revision": header.revision.0,
                "objects": header.objects,
                "keys": files.iter().map(|file| &file.name).collect::<Vec<_>>(),
                "bytes": bytes,
            });
            serde_json::to_string_pretty(&summary).context("write the summary")?
        }
    };
    if is_standard_stream(&args.file) {
        output::note(text);
        return Ok(());
    }
    output::print(&(text + "\n"))
}
