//! A kubeconfig: one cluster, one user, certificates embedded.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{IssuedCertificate, write_private};

/// What goes into a kubeconfig.
#[derive(Clone, Copy, Debug)]
pub struct Kubeconfig<'a> {
    /// For example `https://127.0.0.1:6443`.
    pub server: &'a str,
    /// The CA certificate, PEM.
    pub ca_pem: &'a str,
    /// What its context is called.
    pub context: &'a str,
    /// The namespace of its context; none: `default`.
    pub namespace: Option<&'a str>,
    /// What its user is called.
    pub user: &'a str,
    /// The user's certificate.
    pub certificate: &'a IssuedCertificate,
}

/// The name of the cluster.
const CLUSTER: &str = "rekindle";

impl Kubeconfig<'_> {
    /// The file's text. Names are quoted, as those of users may have any character.
    pub fn text(&self) -> String {
        let Self { server, ca_pem, certificate, .. } = self;
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let (context, user) = (quoted(self.context), quoted(self.user));
        let namespace = self.namespace.map(|name| format!("\n    namespace: {}", quoted(name)));
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: {context}\nclusters:\n- name: {CLUSTER}\n  cluster:\n    server: {server}\n    \
             certificate-authority-data: {}\nusers:\n- name: {user}\n  user:\n    client-certificate-data: {}\n    \
             client-key-data: {}\ncontexts:\n- name: {context}\n  context:\n    cluster: {CLUSTER}\n    user: {user}{}\n",
            STANDARD.encode(ca_pem),
            STANDARD.encode(&certificate.certificate_pem),
            STANDARD.encode(&certificate.key_pem),
            namespace.unwrap_or_default(),
        )
    }

    /// Writes the file so that only its owner can read it, in one step: no reader sees half of it.
    ///
    /// # Errors
    /// When the file or its folder cannot be written.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        write_private(path, self.text().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_private_and_has_everything_inside() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubeconfig");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let certificate =
            IssuedCertificate { certificate_pem: "b".to_owned(), key_pem: "c".to_owned() };
        let config = Kubeconfig {
            server: "https://127.0.0.1:1",
            ca_pem: "a",
            context: "rekindle",
            namespace: Some("shop"),
            user: "jane: \"doe\"",
            certificate: &certificate,
        };
        config.write(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        expect_test::expect![[r#"
            apiVersion: v1
            kind: Config
            current-context: "rekindle"
            clusters:
            - name: rekindle
              cluster:
                server: https://127.0.0.1:1
                certificate-authority-data: YQ==
            users:
            - name: "jane: \"doe\""
              user:
                client-certificate-data: Yg==
                client-key-data: Yw==
            contexts:
            - name: "rekindle"
              context:
                cluster: rekindle
                user: "jane: \"doe\""
                namespace: "shop"
        "#]]
        .assert_eq(&std::fs::read_to_string(&path).unwrap());
    }
}
