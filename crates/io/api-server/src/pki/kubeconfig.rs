//! The kubeconfig that `up` writes: one cluster, one user, certificates embedded.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::write_private;

/// What goes into a kubeconfig.
#[derive(Clone, Copy, Debug)]
pub struct Kubeconfig<'a> {
    /// For example `https://127.0.0.1:6443`.
    pub server: &'a str,
    /// The CA certificate, PEM.
    pub ca_pem: &'a str,
    /// The client certificate, PEM.
    pub certificate_pem: &'a str,
    /// Its key, PEM.
    pub key_pem: &'a str,
}

/// The name of cluster and context.
const NAME: &str = "rekindle";
/// The name of the user entry.
const USER: &str = "rekindle-admin";

impl Kubeconfig<'_> {
    /// The file's text.
    pub fn text(&self) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: {NAME}\nclusters:\n- name: {NAME}\n  cluster:\n    server: {}\n    \
             certificate-authority-data: {}\nusers:\n- name: {USER}\n  user:\n    client-certificate-data: {}\n    \
             client-key-data: {}\ncontexts:\n- name: {NAME}\n  context:\n    cluster: {NAME}\n    user: {USER}\n",
            self.server,
            STANDARD.encode(self.ca_pem),
            STANDARD.encode(self.certificate_pem),
            STANDARD.encode(self.key_pem),
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
        let config = Kubeconfig {
            server: "https://127.0.0.1:1",
            ca_pem: "a",
            certificate_pem: "b",
            key_pem: "c",
        };
        config.write(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        expect_test::expect![[r#"
            apiVersion: v1
            kind: Config
            current-context: rekindle
            clusters:
            - name: rekindle
              cluster:
                server: https://127.0.0.1:1
                certificate-authority-data: YQ==
            users:
            - name: rekindle-admin
              user:
                client-certificate-data: Yg==
                client-key-data: Yw==
            contexts:
            - name: rekindle
              context:
                cluster: rekindle
                user: rekindle-admin
        "#]]
        .assert_eq(&std::fs::read_to_string(&path).unwrap());
    }
}
