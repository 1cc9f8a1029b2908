//! Pull secrets: `kubernetes.io/dockerconfigjson` (docker's config.json) and
//! `kubernetes.io/dockercfg`, its older form without the outer `auths`. Sources: Kubernetes
//! documentation, "Pull an Image from a Private Registry"; docker CLI, "Credential stores" (`auth`
//! is base64 of `user:password`).

use std::collections::BTreeMap;

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine, alphabet};
use serde::Deserialize;

use super::login::{Keyring, Login};

/// Bytes of a document at most: what a Secret can hold.
const DOCUMENT_MAX_BYTES: usize = 1 << 20;

/// Why a document holds no logins. It names no content: that is secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DockerConfigError {
    /// It is no JSON of the right form.
    #[error("it is no JSON object of registry logins (line {line}, column {column})")]
    Form {
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
    },
    /// It is too large.
    #[error("it has {bytes} bytes; 1 MiB is the most")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// One login cannot be used.
    #[error("the login for {place:?} {problem}")]
    Login {
        /// The registry.
        place: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: BTreeMap<String, DockerAuth>,
}

#[derive(Default, Deserialize)]
struct DockerAuth {
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
    #[serde(default)]
    auth: String,
    #[serde(default)]
    identitytoken: String,
    #[serde(default)]
    registrytoken: String,
}

impl Keyring {
    /// Reads docker's config.json, the content of `.dockerconfigjson`.
    pub fn from_docker_config_json(bytes: &[u8]) -> Result<Self, DockerConfigError> {
        let config: DockerConfig = read(bytes)?;
        keyring(config.auths)
    }

    /// Reads the older form, the content of `.dockercfg`.
    pub fn from_dockercfg(bytes: &[u8]) -> Result<Self, DockerConfigError> {
        keyring(read(bytes)?)
    }
}

fn read<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, DockerConfigError> {
    if bytes.len() > DOCUMENT_MAX_BYTES {
        return Err(DockerConfigError::TooLarge { bytes: bytes.len() });
    }
    // serde's own text may quote the content
    serde_json::from_slice(bytes)
        .map_err(|error| DockerConfigError::Form { line: error.line(), column: error.column() })
}

fn keyring(auths: BTreeMap<String, DockerAuth>) -> Result<Keyring, DockerConfigError> {
    let mut keyring = Keyring::new();
    for (place, entry) in auths {
        match login(entry) {
            Ok(Some(login)) => keyring.add(&place, login),
            Ok(None) => {} // docker leaves empty entries where a credential helper has the login
            Err(problem) => return Err(DockerConfigError::Login { place, problem }),
        }
    }
    Ok(keyring)
}

fn login(entry: DockerAuth) -> Result<Option<Login>, &'static str> {
    if !entry.registrytoken.is_empty() {
        return Ok(Some(Login::RegistryToken(entry.registrytoken)));
    }
    if !entry.identitytoken.is_empty() {
        return Ok(Some(Login::IdentityToken(entry.identitytoken)));
    }
    if !entry.auth.is_empty() {
        let (username, password) = decode(&entry.auth)?;
        return Ok(Some(Login::Password { username, password }));
    }
    if entry.username.is_empty() && entry.password.is_empty() {
        return Ok(None);
    }
    Ok(Some(Login::Password { username: entry.username, password: entry.password }))
}

/// With padding or without, as kubelets take it (`decodeDockerConfigFieldAuth`).
const AUTH: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

fn decode(auth: &str) -> Result<(String, String), &'static str> {
    let text = AUTH
        .decode(auth.trim())
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or("has an `auth` that is no base64 text")?;
    // docker pads with NUL
    let text = text.trim_end_matches('\0');
    let (username, password) =
        text.split_once(':').ok_or("has an `auth` that is not user:password")?;
    Ok((username.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::ImageReference;

    fn password(username: &str, password: &str) -> Vec<Login> {
        vec![Login::Password { username: username.into(), password: password.into() }]
    }

    #[test]
    fn both_forms_of_pull_secrets_are_read() {
        let auths = r#"{"r.test":{"auth":"dXNlcjpwYTpzcw=="},"s.test":{"username":"u","password":"p","email":"e@x"},
            "n.test":{"auth":"dXNlcjpwYTpzcw"},
            "t.test":{"identitytoken":"idt","auth":"dXNlcjo="},"u.test":{"registrytoken":"rt"},"v.test":{}}"#;
        let new = format!(r#"{{"auths":{auths},"credsStore":"desktop"}}"#);
        for keyring in [
            Keyring::from_docker_config_json(new.as_bytes()).unwrap(),
            Keyring::from_dockercfg(auths.as_bytes()).unwrap(),
        ] {
            let of = |image| keyring.lookup(&ImageReference::parse(image).unwrap());
            assert_eq!(of("r.test/x"), password("user", "pa:ss"));
            assert_eq!(of("s.test/x"), password("u", "p"));
            assert_eq!(of("n.test/x"), password("user", "pa:ss"), "without padding");
            assert_eq!(of("t.test/x"), [Login::IdentityToken("idt".into())]);
            assert_eq!(of("u.test/x"), [Login::RegistryToken("rt".into())]);
            assert_eq!(of("v.test/x"), []);
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_without_its_content() {
        let large = vec![b' '; DOCUMENT_MAX_BYTES + 1];
        let cases: [(&[u8], &str); 5] = [
            (b"hidden", "line 1"),
            (br#"{"auths":"hidden"}"#, "line 1"),
            (br#"{"auths":{"r.test":{"auth":"hidden!"}}}"#, r#"login for "r.test" has an `auth`"#),
            (br#"{"auths":{"r.test":{"auth":"aGlkZGVu"}}}"#, "not user:password"),
            (&large, "1 MiB"),
        ];
        for (bytes, reason) in cases {
            let error = Keyring::from_docker_config_json(bytes).unwrap_err().to_string();
            assert!(error.contains(reason) && !error.contains("hidden"), "{error}");
        }
    }
}
