//! Who is told of exhausted ladders, as the arguments say.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, ensure};
use rekindle_operator::{Webhook, WebhookError};

use crate::args::ExhaustedWebhook;

/// Bytes of a file of certificates; that of a whole system has a quarter of it.
const CERTIFICATES_BYTES_MAX: u64 = 1 << 20;
/// Bytes of a file that holds the URL.
const URL_FILE_BYTES_MAX: u64 = 16 << 10;

/// The receiver; none when nobody is to be told.
pub(crate) fn webhook(args: &ExhaustedWebhook) -> anyhow::Result<Option<Webhook>> {
    let url = match (&args.exhausted_webhook, &args.exhausted_webhook_file) {
        (Some(url), _) => url.clone(),
        (None, Some(path)) => read_url(path)?,
        (None, None) => return Ok(None),
    };
    let url = url.as_str();
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

/// The URL that a file holds, on a line of its own.
fn read_url(path: &Path) -> anyhow::Result<String> {
    let reading = || format!("read the webhook's URL from {}", path.display());
    let file = std::fs::File::open(path).with_context(reading)?;
    let mut text = String::new();
    file.take(URL_FILE_BYTES_MAX + 1).read_to_string(&mut text).with_context(reading)?;
    ensure!(
        text.len() as u64 <= URL_FILE_BYTES_MAX,
        "{}: the file of the webhook's URL takes at most {URL_FILE_BYTES_MAX} bytes",
        path.display()
    );
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rekindle_types::causes;

    use super::*;
    use crate::args::{Cli, Command};

    #[test]
    fn the_url_can_be_in_a_file_and_then_it_is_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("url");
        let path = file.to_str().unwrap();
        let read = |words: &[&str]| {
            let given = ["rekindle", "up"].iter().chain(words).copied();
            match Cli::try_parse_from(given).map(|cli| cli.command) {
                Ok(Command::Up(up)) => webhook(&up.exhausted).map(|webhook| webhook.is_some()),
                Ok(_) => panic!("it is up"),
                Err(error) => Err(error.into()),
            }
        };
        let from_file = ["--exhausted-webhook-file", path];
        let error = read(&from_file).unwrap_err();
        assert!(causes(&*error).starts_with("read the webhook's URL from"), "{error:#}");
        std::fs::write(&file, "https://hooks.example/secret\n").unwrap();
        assert!(read(&from_file).unwrap());
        let twice = [&from_file[..], &["--exhausted-webhook", "https://hooks.example/"]].concat();
        assert!(read(&twice).unwrap_err().to_string().contains("cannot be used with"));
        std::fs::write(&file, "x".repeat(20 << 10)).unwrap();
        assert!(read(&from_file).unwrap_err().to_string().contains("at most 16384 bytes"));
        assert!(read(&["--exhausted-webhook-ca", path]).is_err(), "an authority for nobody");
    }

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
            let Err(error) = webhook(&up.exhausted) else {
                panic!("{url}: there is no certificate")
            };
            let text = causes(&*error);
            let blamed = text.starts_with("read the certificates of the webhook's authority");
            assert_eq!(blamed, blames_file, "{url}: {text}");
        }
    }
}
