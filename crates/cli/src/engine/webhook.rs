//! Who is told of exhausted ladders, as the arguments say.

use std::io::Read;

use anyhow::{Context, ensure};
use rekindle_operator::{Webhook, WebhookError};

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
    match Webhook::new(url, Some(&pem)) {
        Ok(webhook) => Ok(Some(webhook)),
        Err(error @ WebhookError::NoAuthority(_)) => Err(error).with_context(reading),
        // what is wrong with the URL, or with TLS here, has nothing to do with the file
        Err(
            error @ (WebhookError::NotAUrl(_)
            | WebhookError::NotHttp
            | WebhookError::Credentials
            | WebhookError::TooLong
            | WebhookError::AuthorityWithoutTls
            | WebhookError::Tls(_)),
        ) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rekindle_types::causes;

    use super::*;
    use crate::args::{Cli, Command};

    #[test]
    fn a_wrong_url_is_not_blamed_on_the_file_of_certificates() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ca.pem");
        std::fs::write(&file, "no certificate").unwrap();
        let path = file.to_str().unwrap();
        for (url, blames_file) in [
            ("hooks.example", false),
            ("ftp://hooks.example/", false),
            ("https://me:secret@hooks.example/", false),
            ("http://hooks.example/", false),
            ("https://hooks.example/", true),
        ] {
            let words =
                ["rekindle", "up", "--exhausted-webhook", url, "--exhausted-webhook-ca", path];
            let Command::Up(up) = Cli::try_parse_from(words).unwrap().command else {
                panic!("it is up");
            };
            let Err(error) = webhook(&up) else { panic!("{url}: there is no certificate") };
            let text = causes(&*error);
            let blamed = text.starts_with("read the certificates of the webhook's authority");
            assert_eq!(blamed, blames_file, "{url}: {text}");
        }
    }
}
