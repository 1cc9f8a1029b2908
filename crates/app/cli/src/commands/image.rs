//! `rekindle image`: what is on this machine. Works beside a running engine and without one.

use std::process::ExitCode;

use anyhow::Context;
use comfy_table::{Table, presets};
use rekindle_runtime::image::{ImageError, ImageRemoval, ImageRetention};

use crate::args::{ImageList, ImageLoad, ImageRm};
use crate::engine::images::EngineDir;
use crate::output;

/// `rekindle image load FILE`.
pub fn load(args: &ImageLoad) -> anyhow::Result<ExitCode> {
    let images = EngineDir::new(&args.data_dir.data_dir).images()?;
    let retention = if args.evictable { ImageRetention::Evictable } else { ImageRetention::Pinned };
    let loaded = images.load(&args.file, retention);
    let loaded = loaded.with_context(|| format!("load {}", args.file.display()))?;
    for image in loaded {
        for note in &image.notes {
            output::note(format!("note: {note}"));
        }
        let name = if image.references.is_empty() {
            image.id.clone()
        } else {
            image.references.join(", ")
        };
        output::tell(format!("loaded {name}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// `rekindle image list`.
pub fn list(args: &ImageList) -> anyhow::Result<ExitCode> {
    let images = EngineDir::new(&args.data_dir.data_dir).images()?;
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["IMAGE", "ID", "BYTES", "PINNED"]);
    for image in images.list().context("list the images")? {
        let pinned = match image.retention {
            ImageRetention::Pinned => "yes",
            ImageRetention::Evictable => "no",
        };
        let info = image.info;
        table.add_row([info.reference, info.id, info.size_bytes.to_string(), pinned.to_owned()]);
    }
    output::print(&format!("{table}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// `rekindle image rm IMAGE…`.
pub fn remove(args: &ImageRm) -> anyhow::Result<ExitCode> {
    let engine = EngineDir::new(&args.data_dir.data_dir);
    let images = engine.images()?;
    let removal = if args.force { ImageRemoval::Forced } else { ImageRemoval::OfUnused };
    for image in &args.images {
        images.remove(image, removal, || engine.images_in_use()).map_err(advised)?;
        output::tell(format!("removed {image}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// With what can be done about an image that is in use.
fn advised(error: ImageError) -> anyhow::Error {
    match error {
        ImageError::InUse { .. } => anyhow::anyhow!(
            "{error}: delete these pods first, or give --force: then its names go now, and its files when nothing uses them"
        ),
        error => error.into(),
    }
}
