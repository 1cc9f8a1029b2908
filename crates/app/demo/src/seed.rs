//! `demo seed`: the first time, leaves a bad file behind; never again. A stand-in for whatever once
//! put bad state into a shared volume and will not do so twice: a download cut short, a
//! half-written cache, a crash in the middle of a migration.

use std::path::PathBuf;

use crate::DemoError;

/// Leave a file behind, once: how a shared volume gets poisoned.
#[derive(Clone, Debug, clap::Args)]
pub struct Seed {
    /// The bad file
    #[arg(long)]
    poison: PathBuf,
    /// A file outside the pod that remembers that it happened
    #[arg(long)]
    once: PathBuf,
}

impl Seed {
    pub(crate) fn run(self) -> Result<u8, DemoError> {
        if self.once.exists() {
            println!("seeded cleanly");
            return Ok(0);
        }
        for path in [&self.once, &self.poison] {
            std::fs::write(path, "cut short\n")
                .map_err(|source| DemoError::Write { path: path.display().to_string(), source })?;
        }
        println!("seeding was cut short: left {} behind", self.poison.display());
        Ok(0)
    }
}
