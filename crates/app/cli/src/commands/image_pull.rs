//! `rekindle image pull`: fetches an image into the store, beside a running engine or without one.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use rekindle_runtime::image::registry::{Keyring, LayerProgress, LayerState, Puller};

use crate::args::ImagePullArgs;
use crate::engine::images::EngineDir;
use crate::engine::node::registry_settings;
use crate::output;

/// Hex digits of a layer's digest that are shown.
const DIGITS_SHOWN: usize = 12;

/// `rekindle image pull IMAGE`.
pub fn run(args: &ImagePullArgs) -> anyhow::Result<ExitCode> {
    let keyring = match &args.auth_file {
        Some(file) => read_logins(file)?,
        None => Keyring::new(),
    };
    let images = Arc::new(EngineDir::new(&args.data_dir.data_dir).images()?);
    let puller = Puller::new(images, registry_settings(&args.registries));
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("start the async runtime")?;
    let display = match std::io::stderr().is_terminal() {
        true => PullDisplay::Bars(LayerBars::default()),
        false => PullDisplay::Lines,
    };
    let listener = move |progress: LayerProgress| display.show(&progress);
    let pulled = tokio.block_on(puller.pull_watched(&args.image, &keyring, listener));
    let info = pulled.map_err(|error| anyhow::anyhow!(error.to_runtime(&args.image)))?;
    output::tell(format!("pulled {} ({}, {} bytes)", info.reference, info.id, info.size_bytes));
    Ok(ExitCode::SUCCESS)
}

fn read_logins(file: &Path) -> anyhow::Result<Keyring> {
    let bytes = std::fs::read(file).with_context(|| format!("read {}", file.display()))?;
    Keyring::from_docker_config_json(&bytes)
        .with_context(|| format!("read the logins in {}", file.display()))
}

/// Where progress is shown.
enum PullDisplay {
    /// A bar for each layer, on a terminal.
    Bars(LayerBars),
    /// A line for each step that a layer has done, anywhere else.
    Lines,
}

#[derive(Default)]
struct LayerBars {
    all: MultiProgress,
    layers: Mutex<BTreeMap<String, ProgressBar>>,
}

impl PullDisplay {
    fn show(&self, progress: &LayerProgress) {
        let name = short(&progress.layer);
        match self {
            Self::Bars(bars) => bars.show(name, progress),
            Self::Lines => {
                if let Some(step) = finished_step(progress) {
                    output::note(format!("{name}: {step}"));
                }
            }
        }
    }
}

/// What a line says; nothing for what only moves a bar.
fn finished_step(progress: &LayerProgress) -> Option<String> {
    match progress.state {
        LayerState::AlreadyHere => Some("already here".to_owned()),
        LayerState::Unpacking => Some(format!("fetched {} bytes", progress.size_bytes)),
        LayerState::Done => Some("done".to_owned()),
        LayerState::Waiting | LayerState::Coming { .. } => None,
    }
}

impl LayerBars {
    fn show(&self, name: &str, progress: &LayerProgress) {
        let mut layers = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        let bar = layers.entry(progress.layer.clone()).or_insert_with(|| {
            let bar = ProgressBar::new(progress.size_bytes)
                .with_style(style())
                .with_prefix(name.to_owned());
            self.all.add(bar)
        });
        match progress.state {
            LayerState::AlreadyHere => bar.finish_with_message("already here"),
            LayerState::Waiting => bar.set_message("waiting"),
            LayerState::Coming { bytes } => {
                bar.set_message("");
                bar.set_position(bytes);
            }
            LayerState::Unpacking => bar.set_message("unpacking"),
            LayerState::Done => bar.finish_with_message("done"),
        }
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{prefix} [{bar:30}] {bytes:>10}/{total_bytes:<10} {msg}")
        .expect("the template is a constant that a test reads")
        .progress_chars("=> ")
}

fn short(digest: &str) -> &str {
    let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
    hex.get(..DIGITS_SHOWN).unwrap_or(hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(state: LayerState) -> LayerProgress {
        LayerProgress {
            layer: format!("sha256:{}", "0123456789abcdef".repeat(4)),
            size_bytes: 9,
            state,
        }
    }

    #[test]
    fn without_a_terminal_each_finished_step_of_a_layer_is_a_line() {
        let cases = [
            (LayerState::AlreadyHere, Some("already here")),
            (LayerState::Waiting, None),
            (LayerState::Coming { bytes: 4 }, None),
            (LayerState::Unpacking, Some("fetched 9 bytes")),
            (LayerState::Done, Some("done")),
        ];
        for (state, line) in cases {
            assert_eq!(finished_step(&progress(state)).as_deref(), line, "{state:?}");
        }
        assert_eq!(short(&progress(LayerState::Done).layer), "0123456789ab");
    }

    #[test]
    fn bars_take_every_state() {
        let bars = LayerBars::default();
        for state in [LayerState::Waiting, LayerState::Coming { bytes: 4 }, LayerState::Done] {
            bars.show("0123456789ab", &progress(state));
        }
        let layers = bars.layers.lock().unwrap();
        assert!(layers.values().all(ProgressBar::is_finished));
    }
}
