//! `rekindle backup`: all objects of one revision, with the engine's keys, in a file.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use rekindle_store::backup::BackupFile;
use serde_json::json;

use crate::args::{BackupArgs, OutputArg};
use crate::backup::engine_keys::{EngineKeys, files_of};
use crate::backup::target::{BackupTarget, WrittenBackup};
use crate::backup::{content, is_standard_stream, sources};
use crate::client;
use crate::holder::DataDirHolder;
use crate::output;

/// Carries the command out: through the API of the engine that runs, or from the disk.
pub fn run(args: &BackupArgs) -> anyhow::Result<ExitCode> {
    let target = BackupTarget::open(&args.file, args.force)?;
    let data_dir = &args.data_dir.data_dir;
    let written = match &args.kubeconfig {
        // the keys of this machine's engine are not those of the API's
        Some(kubeconfig) => through_api(kubeconfig, args, &[], target)?,
        None if DataDirHolder::find(data_dir)?.is_some() => {
            // an engine that runs does not change them
            let keys = if args.without_keys { None } else { EngineKeys::read(data_dir)? };
            through_api(&data_dir.join("kubeconfig"), args, files_of(keys.as_ref()), target)?
        }
        None => sources::from_disk(data_dir, args.without_keys, target)?,
    };
    print_summary(args, &written)?;
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

fn print_summary(args: &BackupArgs, written: &WrittenBackup) -> anyhow::Result<()> {
    let WrittenBackup { header, files, bytes } = written;
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
                "keys": files,
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
