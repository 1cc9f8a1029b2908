//! Where an answer sends to: its Location, read as Go's `net/url` reads it, and resolved against
//! the address that was asked (RFC 3986, section 5.2).

/// Why a Location leads nowhere, in the words of Go's client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to parse Location header {location:?}: parse {location:?}: {problem}")]
pub(crate) struct LocationError {
    location: String,
    problem: LocationProblem,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum LocationProblem {
    #[error("net/url: invalid control character in URL")]
    ControlCharacter,
    #[error("missing protocol scheme")]
    NoScheme,
    #[error("first path segment in URL cannot contain colon")]
    Colon,
    #[error("invalid URL escape {0:?}")]
    Escape(String),
    #[error("invalid host or port {0:?}")]
    Authority(String),
}

/// A Location taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RedirectLocation {
    /// In lower case.
    pub(super) scheme: Option<String>,
    pub(super) authority: Option<HostAuthority>,
    path: String,
    query: Option<String>,
}

/// The host of a Location, and its port if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostAuthority {
    /// Without brackets.
    pub(super) host: String,
    pub(super) port: Option<u16>,
}

impl RedirectLocation {
    pub(super) fn parse(location: &str) -> Result<Self, LocationError> {
        Self::read(location)
            .map_err(|problem| LocationError { location: location.to_owned(), problem })
    }

    fn read(location: &str) -> Result<Self, LocationProblem> {
        if location.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(LocationProblem::ControlCharacter);
        }
        let reference = location.split('#').next().unwrap_or_default();
        let (scheme, rest) = split_scheme(reference)?;
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query.to_owned())),
            None => (rest, None),
        };
        let has_authority =
            rest.starts_with("//") && (scheme.is_some() || !rest.starts_with("///"));
        let (authority, path) = match rest.strip_prefix("//").filter(|_| has_authority) {
            Some(rest) => {
                let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                (Some(HostAuthority::read(authority)?), path)
            }
            None => (None, rest),
        };
        let first = path.split('/').next().unwrap_or_default();
        if scheme.is_none() && authority.is_none() && first.contains(':') {
            return Err(LocationProblem::Colon);
        }
        check_escapes(path)?;
        let scheme = scheme.map(str::to_ascii_lowercase);
        Ok(Self { scheme, authority, path: path.to_owned(), query })
    }

    /// Path and query that it leads to from those that were asked for.
    pub(super) fn from(&self, target: &str) -> String {
        let (base, base_query) = match target.split_once('?') {
            Some((base, query)) => (base, Some(query)),
            None => (target, None),
        };
        let is_beside = self.authority.is_none() && !self.path.starts_with('/');
        let path = if is_beside && self.path.is_empty() {
            base.to_owned()
        } else if is_beside {
            let folder = base.rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{folder}/{}", self.path)
        } else {
            self.path.clone()
        };
        let same_place = is_beside && self.path.is_empty();
        let query = self.query.as_deref().or(base_query.filter(|_| same_place));
        let path = without_dots(&path);
        query.map_or(path.clone(), |query| format!("{path}?{query}"))
    }
}

impl HostAuthority {
    fn read(text: &str) -> Result<Self, LocationProblem> {
        let refused = || LocationProblem::Authority(text.to_owned());
        let host_and_port = text.rsplit_once('@').map_or(text, |(_user, rest)| rest);
        let (host, port) = match host_and_port.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or_else(refused)?,
            None => host_and_port.split_at(host_and_port.find(':').unwrap_or(host_and_port.len())),
        };
        let port = match port.strip_prefix(':') {
            Some("") => None,
            Some(port) => Some(port.parse().map_err(|_| refused())?),
            None if port.is_empty() => None,
            None => return Err(refused()),
        };
        if host.contains(|c: char| c.is_whitespace() || "<>\"\\^`{|}".contains(c)) {
            return Err(refused());
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

/// A scheme and what is behind its colon.
fn split_scheme(reference: &str) -> Result<(Option<&str>, &str), LocationProblem> {
    let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let end = reference.find(|c| !is_of_scheme(c)).unwrap_or(reference.len());
    let (scheme, rest) = reference.split_at(end);
    match rest.strip_prefix(':') {
        Some(_) if scheme.is_empty() => Err(LocationProblem::NoScheme),
        Some(rest) if scheme.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            Ok((Some(scheme), rest))
        }
        Some(_) | None => Ok((None, reference)),
    }
}

fn check_escapes(path: &str) -> Result<(), LocationProblem> {
    for (at, _) in path.match_indices('%') {
        let escape: String = path[at..].chars().take(3).collect();
        if escape.len() != 3 || !escape[1..].bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(LocationProblem::Escape(escape));
        }
    }
    Ok(())
}

/// Without `.` and `..`, and never above the root.
fn without_dots(path: &str) -> String {
    let mut kept = Vec::new();
    let mut segments = path.strip_prefix('/').unwrap_or(path).split('/').peekable();
    while let Some(segment) = segments.next() {
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                if segments.peek().is_none() {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_resolved_against_what_was_asked_for() {
        for (location, target) in [
            ("?x=1", "/a/b/c?x=1"),
            ("", "/a/b/c?q=0"),
            ("#part", "/a/b/c?q=0"),
            ("?", "/a/b/c?"),
            ("../", "/a/"),
            ("..", "/a/"),
            ("../../../d", "/d"),
            (".", "/a/b/"),
            ("./d", "/a/b/d"),
            ("d?y", "/a/b/d?y"),
            ("d/./e/../f", "/a/b/d/f"),
            ("/d/../e?u=http://x/..", "/e?u=http://x/.."),
            ("/", "/"),
            ("http://host", "/"),
            ("http://host?z", "/?z"),
            ("http://host/a/../b", "/b"),
            ("//host/d", "/d"),
            ("///d", "///d"),
        ] {
            assert_eq!(
                RedirectLocation::parse(location).unwrap().from("/a/b/c?q=0"),
                target,
                "{location}"
            );
        }
    }

    #[test]
    fn hosts_and_ports_are_read_and_what_is_neither_is_refused() {
        let host = |location: &str| {
            let found =
                RedirectLocation::parse(location).map_err(|error| error.problem.to_string())?;
            Ok((found.scheme, found.authority.map(|found| (found.host, found.port))))
        };
        let found = |scheme: Option<&str>, host: &str, port| {
            Ok((scheme.map(str::to_owned), Some((host.to_owned(), port))))
        };
        for (location, expected) in [
            ("HTTP://shop.test/", found(Some("http"), "shop.test", None)),
            ("https://u:p@[fd00::1]:8443", found(Some("https"), "fd00::1", Some(8443))),
            ("//10.0.0.1:/x", found(None, "10.0.0.1", None)),
            ("mailto:a@b", Ok((Some("mailto".to_owned()), None))),
            ("d/e:f", Ok((None, None))),
            ("1:2", Err("first path segment in URL cannot contain colon".to_owned())),
            (":80/", Err("missing protocol scheme".to_owned())),
            ("/a%zz", Err("invalid URL escape \"%zz\"".to_owned())),
            ("/a%4", Err("invalid URL escape \"%4\"".to_owned())),
            ("/\u{1}", Err("net/url: invalid control character in URL".to_owned())),
            ("http://h:99999/", Err("invalid host or port \"h:99999\"".to_owned())),
            ("http://[fd00::1/", Err("invalid host or port \"[fd00::1\"".to_owned())),
            ("http://a b/", Err("invalid host or port \"a b\"".to_owned())),
        ] {
            assert_eq!(host(location), expected, "{location:?}");
        }
    }
}
