//! Users that have lost their certificates: what was issued for them up to a moment is void.
//!
//! One file beside the CA's key, with the same owner. Upstream knows no revocation.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rekindle_types::{Tick, TickDuration};
use serde::{Deserialize, Serialize};

use super::client_certificate::ClientCertificate;
use super::private_files::{make_private_folder, read_if_there};
use super::{PkiError, write_private};

/// The steps in which certificates count time.
const SECOND: TickDuration = TickDuration::from_secs(1);

/// Which client certificates of the CA are void.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RevokedCertificates {
    /// By user: those that begin at this moment or before it.
    users: BTreeMap<String, Time>,
}

impl RevokedCertificates {
    /// Its file in the folder of keys.
    pub const FILE: &str = "revoked.json";

    /// What the file in this folder says; without a file all certificates are good.
    ///
    /// # Errors
    /// When it cannot be read, or says something else.
    pub fn open(folder: &Path) -> Result<Self, PkiError> {
        let path = folder.join(Self::FILE);
        match read_if_there(&path)? {
            None => Ok(Self::default()),
            Some(text) => serde_json::from_str(&text)
                .map_err(|source| PkiError::RevokedCertificates { path, source }),
        }
    }

    /// Makes it durable in this folder.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn keep(&self, folder: &Path) -> Result<(), PkiError> {
        make_private_folder(folder)?;
        let path = folder.join(Self::FILE);
        let text = serde_json::to_string_pretty(self).expect("users are texts");
        write_private(&path, text.as_bytes()).map_err(|source| PkiError::Write { path, source })
    }

    /// From now on no certificate of this user is good that is good now.
    pub fn revoke(&mut self, user: &str, now: Tick) {
        self.users.insert(user.to_owned(), now.to_time());
    }

    /// Whether a certificate of this user is void that was issued at this moment. It says the
    /// second only.
    pub fn has(&self, user: &str, issued: Tick) -> bool {
        self.users.get(user).is_some_and(|revoked| issued < Tick::from(revoked) + SECOND)
    }

    /// From when on a new certificate of this user can be good: now, unless its certificates were
    /// revoked in this second, or by a clock that is ahead.
    pub fn good_again(&self, user: &str, now: Tick) -> Tick {
        let revoked = self.users.get(user).map(|revoked| Tick::from(revoked) + SECOND);
        revoked.map_or(now, |after| now.max(after))
    }

    pub(crate) fn covers(&self, certificate: &ClientCertificate) -> bool {
        self.has(&certificate.user.name, certificate.good_from)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NOW: Tick = Tick::from_secs(1_795_000_000);

    #[test]
    fn what_a_user_had_is_void_and_what_it_gets_later_is_good() {
        let mut revoked = RevokedCertificates::default();
        assert!(!revoked.has("jane", NOW));
        revoked.revoke("jane", NOW);
        assert!(revoked.has("jane", NOW - SECOND) && revoked.has("jane", NOW));
        assert!(!revoked.has("jane", NOW + SECOND));
        assert!(!revoked.has("bob", NOW - SECOND));
        assert_eq!(revoked.good_again("jane", NOW), NOW + SECOND);
        assert_eq!(revoked.good_again("jane", NOW + SECOND + SECOND), NOW + SECOND + SECOND);
        assert_eq!(revoked.good_again("bob", NOW), NOW);
        let later = NOW + TickDuration::from_millis(700);
        assert!(revoked.has("jane", later), "its certificate begins with the second");
        revoked.revoke("jane", NOW + SECOND);
        assert!(revoked.has("jane", NOW + SECOND));
    }

    #[test]
    fn it_is_kept_in_a_private_file_that_a_person_can_read() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("pki");
        let mut revoked = RevokedCertificates::default();
        assert_eq!(RevokedCertificates::open(&folder).unwrap(), revoked);
        revoked.revoke("jane@example.com", NOW);
        revoked.keep(&folder).unwrap();
        assert_eq!(RevokedCertificates::open(&folder).unwrap(), revoked);
        let path = folder.join(RevokedCertificates::FILE);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        expect_test::expect![[r#"
            {
              "users": {
                "jane@example.com": "2026-11-18T11:06:40Z"
              }
            }"#]]
        .assert_eq(&std::fs::read_to_string(&path).unwrap());
        std::fs::write(&path, "{}").unwrap();
        let error = RevokedCertificates::open(&folder).unwrap_err().to_string();
        assert!(error.contains("revoked.json"), "{error}");
    }
}
