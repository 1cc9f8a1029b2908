//! `rekindle image`: what is on this machine. Works beside a running engine and without one.

use std::process::ExitCode;

use anyhow::Context;
use comfy_table::{Table, presets};
use rekindle_runtime::embedded::images_in_use;

use crate::args::{ImageList, ImageLoad, ImageRm};
use crate::engine::{images_in, runtime_dir};

/// `rekindle image load FILE`.
pub fn load(args: &ImageLoad) -> anyhow::Result<ExitCode> {
    let images = images_in(&args.data_dir.data_dir, Vec::new())?;
    let loaded =
        images.load(&args.file).with_context(|| format!("load {}", args.file.display()))?;
    for image in loaded {
        for note in &image.notes {
            eprintln!("note: {note}");
        }
        let name = if image.references.is_empty() {
            image.id.clone()
        } else {
            image.references.join(", ")
        };
        println!("loaded {name}");
    }
    Ok(ExitCode::SUCCESS)
}

/// `rekindle image list`.
pub fn list(args: &ImageList) -> anyhow::Result<ExitCode> {
    let images = images_in(&args.data_dir.data_dir, Vec::new())?;
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(["IMAGE", "ID", "BYTES"]);
    for image in images.list().context("list the images")? {
        table.add_row([image.reference, image.id, image.size_bytes.to_string()]);
    }
    println!("{table}");
    Ok(ExitCode::SUCCESS)
}

/// `rekindle image rm IMAGE…`.
pub fn remove(args: &ImageRm) -> anyhow::Result<ExitCode> {
    let data_dir = &args.data_dir.data_dir;
    let images = images_in(data_dir, Vec::new())?;
    for image in &args.images {
        images.remove(image, || images_in_use(&runtime_dir(data_dir)))?;
        println!("removed {image}");
    }
    Ok(ExitCode::SUCCESS)
}
