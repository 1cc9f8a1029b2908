//! `rekindle image`: what is on this machine. Works beside a running engine and without one.

use std::process::ExitCode;

use anyhow::Context;
use comfy_table::{Table, presets};

use crate::args::{ImageList, ImageLoad, ImageRm};
use crate::engine::images::EngineDir;
use crate::output;

/// `rekindle image load FILE`.
pub fn load(args: &ImageLoad) -> anyhow::Result<ExitCode> {
    let images = EngineDir::new(&args.data_dir.data_dir).images()?;
    let loaded =
        images.load(&args.file).with_context(|| format!("load {}", args.file.display()))?;
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
    table.load_preset(presets::NOTHING).set_header(["IMAGE", "ID", "BYTES"]);
    for image in images.list().context("list the images")? {
        table.add_row([image.reference, image.id, image.size_bytes.to_string()]);
    }
    output::print(&format!("{table}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// `rekindle image rm IMAGE…`.
pub fn remove(args: &ImageRm) -> anyhow::Result<ExitCode> {
    let engine = EngineDir::new(&args.data_dir.data_dir);
    let images = engine.images()?;
    for image in &args.images {
        images.remove(image, || engine.images_in_use())?;
        output::tell(format!("removed {image}"));
    }
    Ok(ExitCode::SUCCESS)
}
