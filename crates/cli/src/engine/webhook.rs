//! Who is told of exhausted ladders, as the arguments say.

use std::io::Read;

use anyhow::{Context, ensure};
use rekindle_operator::Webhook;

use crate::args::Up;

/// Bytes of a file of certificates; that of a whole system has a quarter of it.
const CERTIFICATES_BYTES_MAX: u64 = 1 << 20;

/// The receiver; none when nobody is to be told.
pub(super) fn webhook(args: &Up) -> anyhow::Result<Option<Webhook>> {
    let Some(url) = args.exhausted_webhook.as_deref() else { return Ok(None) };
    let Some(path) = &args.exhausted_webhook_ca else { return Ok(Some(Webhook::new(url, None)?)) };
    let reading =
        || format!("read the certificates of the webhook's authority, {}", path.display());
    let file = std::fs::File::open(path).with_context(reading)?;
    let mut pem = Vec::new();
    file.take(CERTIFICATES_BYTES_MAX + 1).read_to_end(&mut pem).with_context(reading)?;
    ensure!(
        pem.len() as u64 <= CERTIFICATES_BYTES_MAX,
        "{}: certificates of an authority take less than 1 MiB",
        path.display()
    );
    Ok(Some(Webhook::new(url, Some(&pem)).with_context(reading)?))
}
