//! Credentials for registries, and which of them are for which image: the kubelet's keyring.

use std::fmt;

use crate::image::ImageReference;

/// What somebody proves to a registry. Its debug output hides the secret.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Login {
    /// A user's.
    Password {
        /// The name.
        username: String,
        /// The secret.
        password: String,
    },
    /// A refresh token, given to the registry's token service in place of a password.
    IdentityToken(String),
    /// A bearer token that goes with each request.
    RegistryToken(String),
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Password { username, .. } => write!(f, "Password({username:?}, …)"),
            Self::IdentityToken(_) => f.write_str("IdentityToken(…)"),
            Self::RegistryToken(_) => f.write_str("RegistryToken(…)"),
        }
    }
}

/// Logins with the images they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keyring {
    entries: Vec<(HostPattern, Login)>,
}

/// `host[:port][/path]`; in the host, `*` stands for any part of one label: `*.registry.test`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HostPattern {
    host: String,
    port: Option<String>,
    /// Empty, or begins with a slash.
    path: String,
}

impl Keyring {
    /// No logins: every registry is asked anonymously.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there is no login in it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a login for a place as `docker login` and pull secrets spell it: `registry.test`,
    /// `https://registry.test:5000/v2/`, `registry.test/team`, `*.registry.test`.
    pub fn add(&mut self, place: &str, login: Login) {
        self.entries.push((HostPattern::parse(place), login));
    }

    /// Adds all logins of another one behind the own.
    pub fn extend(&mut self, other: Keyring) {
        self.entries.extend(other.entries);
    }

    /// The logins to try for an image: of the most special place first, of equal ones in the order
    /// in which they were added.
    pub fn lookup(&self, reference: &ImageReference) -> Vec<Login> {
        let mut found: Vec<&(HostPattern, Login)> =
            self.entries.iter().filter(|(pattern, _)| pattern.matches(reference)).collect();
        found.sort_by_key(|(pattern, _)| {
            (std::cmp::Reverse(pattern.path.len()), pattern.host.contains('*'))
        });
        let mut logins: Vec<Login> = Vec::new();
        for (_, login) in found {
            if !logins.contains(login) {
                logins.push(login.clone());
            }
        }
        logins
    }
}

impl HostPattern {
    fn parse(place: &str) -> Self {
        let place = place.trim();
        let rest = place
            .strip_prefix("https://")
            .or_else(|| place.strip_prefix("http://"))
            .unwrap_or(place);
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, ""),
        };
        // docker's config spells a whole registry `https://index.docker.io/v1/`
        let path = ["/v1/", "/v2/"]
            .iter()
            .find_map(|version| path.strip_prefix(version))
            .map(|rest| format!("/{rest}"))
            .unwrap_or_else(|| path.to_owned());
        let path = match path.as_str() {
            "/" | "/v1" | "/v2" => String::new(),
            _ => path,
        };
        let (host, port) = match authority.split_once(':') {
            Some((host, port)) => (host, Some(port.to_owned())),
            None => (authority, None),
        };
        let host = match host.to_ascii_lowercase().as_str() {
            "index.docker.io" | "registry-1.docker.io" => "docker.io".to_owned(),
            other => other.to_owned(),
        };
        Self { host, port, path }
    }

    /// As the kubelet matches: the same port, label by label the same host, and the path as a
    /// prefix.
    fn matches(&self, reference: &ImageReference) -> bool {
        let registry = reference.registry().to_ascii_lowercase();
        let (host, port) = match registry.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (registry.as_str(), None),
        };
        let labels = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        let (wanted, given) = (labels(&self.host), labels(host));
        let path = format!("/{}", reference.repository());
        self.port.as_deref() == port
            && wanted.len() == given.len()
            && wanted.iter().zip(&given).all(|(pattern, label)| label_matches(pattern, label))
            && path.starts_with(&self.path)
    }
}

/// `*` stands for any number of characters.
fn label_matches(pattern: &str, label: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = label.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(name: &str) -> Login {
        Login::Password { username: name.to_owned(), password: "hidden".to_owned() }
    }

    fn names(keyring: &Keyring, image: &str) -> Vec<String> {
        let logins = keyring.lookup(&ImageReference::parse(image).unwrap());
        let name = |login| match login {
            Login::Password { username, .. } => username,
            Login::IdentityToken(token) | Login::RegistryToken(token) => token,
        };
        logins.into_iter().map(name).collect()
    }

    #[test]
    fn a_login_is_for_its_registry_port_and_path_only() {
        // (place, image, whether it is for it); the first lines are those of the Kubernetes
        // documentation, "Images"
        let cases = [
            ("*.kubernetes.io", "sub.kubernetes.io/x", true),
            ("*.kubernetes.io", "kubernetes.io/x", false),
            ("*.kubernetes.io", "sub.sub.kubernetes.io/x", false),
            ("*.*.kubernetes.io", "sub.sub.kubernetes.io/x", true),
            ("prefix.*.io", "prefix.kubernetes.io/x", true),
            ("*-good.kubernetes.io", "prefix-good.kubernetes.io/x", true),
            ("my-registry.io/images", "my-registry.io/images/my-image", true),
            ("my-registry.io/images", "my-registry.io/other/my-image", false),
            ("*.my-registry.io/images", "sub.my-registry.io/images/my-image", true),
            ("my-registry.io:5000", "my-registry.io:5000/x", true),
            ("my-registry.io", "my-registry.io:5000/x", false),
            ("https://my-registry.io/v2/", "my-registry.io/x", true),
            ("https://my-registry.io/v2/team", "my-registry.io/team/x", true),
            ("https://my-registry.io/v2/team", "my-registry.io/x", false),
            ("https://index.docker.io/v1/", "busybox", true),
            ("index.docker.io", "team/app", true),
            ("docker.io", "docker.io/team/app", true),
            ("https://index.docker.io/v1/", "my-registry.io/x", false),
            ("docker.io", "docker.io.evil.test/x", false),
            ("My-Registry.IO", "my-registry.io/x", true),
            ("", "my-registry.io/x", false),
            ("*", "my-registry.io/x", false),
        ];
        for (place, image, matches) in cases {
            let mut keyring = Keyring::new();
            keyring.add(place, login("user"));
            assert_eq!(names(&keyring, image).len(), usize::from(matches), "{place} for {image}");
        }
    }

    #[test]
    fn the_most_special_place_comes_first_and_each_login_once() {
        let mut keyring = Keyring::new();
        for (place, name) in [
            ("*.test", "glob"),
            ("r.test", "host"),
            ("r.test/team", "team"),
            ("r.test/team/app", "app"),
            ("r.test/other", "other"),
            ("r.test", "host"),
            ("r.test", "host2"),
        ] {
            keyring.add(place, login(name));
        }
        assert_eq!(names(&keyring, "r.test/team/app:1"), ["app", "team", "host", "host2", "glob"]);
        assert_eq!(names(&keyring, "x.test/y"), ["glob"]);
    }

    #[test]
    fn no_debug_text_holds_a_secret() {
        let logins = [
            login("user"),
            Login::IdentityToken("hidden".to_owned()),
            Login::RegistryToken("hidden".to_owned()),
        ];
        let mut keyring = Keyring::new();
        for login in logins {
            keyring.add("r.test", login);
        }
        assert!(!format!("{keyring:?}").contains("hidden"));
    }
}
