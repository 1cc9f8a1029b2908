//! What a Secret of type `kubernetes.io/tls` is warned of: a certificate or a key that no server
//! could load. The words are those of Go's crypto/tls, which the real API server passes on. Whether
//! the key belongs to the certificate is not looked at.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use pem::Pem;
use rekindle_types::pem_blocks::{self, CERTIFICATE};
use x509_cert::Certificate;
use x509_cert::der::Decode;

const PRIVATE_KEY: &str = "PRIVATE KEY";

/// What is wrong with the two files, if they are there and something is.
pub(super) fn warning(data: &BTreeMap<String, ByteString>) -> Option<String> {
    let blocks = |key: &str| data.get(key).map(|file| blocks(&file.0));
    let (certificates, keys) = (blocks("tls.crt")?, blocks("tls.key")?);
    let problem = certificate_problem(&certificates).or_else(|| key_problem(&keys));
    problem.map(|problem| format!("tls: {problem}")).or_else(|| {
        let first = certificates.iter().find(|block| block.tag() == CERTIFICATE)?;
        let read = Certificate::from_der(first.contents());
        read.is_err().then(|| "x509: malformed certificate".to_owned())
    })
}

/// The blocks of a file.
fn blocks(file: &[u8]) -> Vec<Pem> {
    pem_blocks::blocks(&String::from_utf8_lossy(file)).collect()
}

fn certificate_problem(blocks: &[Pem]) -> Option<String> {
    match blocks {
        [] => Some("failed to find any PEM data in certificate input".to_owned()),
        _ if blocks.iter().any(|block| block.tag() == CERTIFICATE) => None,
        [one] if one.tag().ends_with(PRIVATE_KEY) => Some(
            "failed to find certificate PEM data in certificate input, but did find a private key; \
             PEM inputs may have been switched"
                .to_owned(),
        ),
        others => Some(format!(
            "failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM \
             blocks of the following types: {}",
            types(others)
        )),
    }
}

fn key_problem(blocks: &[Pem]) -> Option<String> {
    match blocks {
        [] => Some("failed to find any PEM data in key input".to_owned()),
        _ if blocks.iter().any(|block| is_key(block.tag())) => None,
        [one] if one.tag() == CERTIFICATE => {
            Some("found a certificate rather than a key in the PEM for the private key".to_owned())
        }
        others => Some(format!(
            "failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after \
             skipping PEM blocks of the following types: {}",
            types(others)
        )),
    }
}

fn is_key(tag: &str) -> bool {
    tag.strip_suffix(PRIVATE_KEY).is_some_and(|kind| kind.is_empty() || kind.ends_with(' '))
}

/// As Go prints a list.
fn types(blocks: &[Pem]) -> String {
    let tags: Vec<&str> = blocks.iter().map(Pem::tag).collect();
    format!("[{}]", tags.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block that says nothing.
    fn block(tag: &str) -> String {
        pem::encode(&Pem::new(tag, vec![0; 3]))
    }

    fn warned(certificate: &str, key: &str) -> Option<String> {
        let file = |text: &str| ByteString(text.as_bytes().to_vec());
        let files = [("tls.crt", file(certificate)), ("tls.key", file(key))];
        warning(&files.map(|(name, file)| (name.to_owned(), file)).into())
    }

    #[test]
    fn files_that_no_server_could_load_are_warned_of_in_the_words_of_upstream() {
        let (certificate, key) = (block(CERTIFICATE), block(PRIVATE_KEY));
        let broken = "-----BEGIN CERTIFICATE-----\nzz\n-----END CERTIFICATE-----\n";
        for (files, expected) in [
            (["", &key], "tls: failed to find any PEM data in certificate input"),
            ([broken, &key], "tls: failed to find any PEM data in certificate input"),
            ([&certificate, "x"], "tls: failed to find any PEM data in key input"),
            (
                [&key, &certificate],
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched",
            ),
            (
                [&certificate, &certificate],
                "tls: found a certificate rather than a key in the PEM for the private key",
            ),
            (
                [&block("A"), &key],
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [A]",
            ),
            (
                [&certificate, &[block("A"), block("B")].concat()],
                "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: [A B]",
            ),
            ([&certificate, &key], "x509: malformed certificate"),
            (
                [&[broken, &certificate].concat(), &block("RSA PRIVATE KEY")],
                "x509: malformed certificate",
            ),
        ] {
            assert_eq!(warned(files[0], files[1]).as_deref(), Some(expected), "{files:?}");
        }
    }

    #[test]
    fn files_that_are_not_there_are_refused_elsewhere() {
        assert_eq!(warning(&BTreeMap::new()), None);
    }
}
