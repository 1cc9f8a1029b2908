//! `rekindle token-key`: the key that signs tokens of service accounts is changed without a token
//! that is refused in between.

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::{bail, ensure};
use rekindle_api_server::pki::TokenKey;

use super::kubeconfig::existing_keys;
use crate::args::{TokenKeyCommand, TokenKeyRetire, TokenKeyRotate};
use crate::output;

/// How long the tokens are good that pods have mounted. After this they have others.
const MOUNTED_TOKENS_LAST: Duration = Duration::from_secs(3607);

/// Carries the command out.
pub fn run(command: &TokenKeyCommand) -> anyhow::Result<ExitCode> {
    match command {
        TokenKeyCommand::Rotate(rotate) => self::rotate(rotate)?,
        TokenKeyCommand::Retire(retire) => self::retire(retire)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn rotate(args: &TokenKeyRotate) -> anyhow::Result<()> {
    TokenKey::rotate(&existing_keys(&args.data_dir.data_dir)?)?;
    output::tell(
        "a new key signs tokens; those of the key before are good until `rekindle token-key retire`",
    );
    Ok(())
}

fn retire(args: &TokenKeyRetire) -> anyhow::Result<()> {
    let folder = existing_keys(&args.data_dir.data_dir)?;
    let Some(rotated) = TokenKey::rotated_at(&folder)? else {
        bail!("no rotation is under way: begin one with `rekindle token-key rotate`");
    };
    let since = SystemTime::now().duration_since(rotated).unwrap_or_default();
    let left = MOUNTED_TOKENS_LAST.saturating_sub(since);
    ensure!(
        left.is_zero() || args.force,
        "pods may have tokens of the key before for {} more minutes: wait, or give --force, and pods are refused until they get new tokens",
        left.as_secs().div_ceil(60)
    );
    TokenKey::retire_previous(&folder)?;
    output::tell("tokens of the key before are void");
    Ok(())
}
