//! A strict reader of the Prometheus text format (0.0.4): what it takes, every scraper takes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;

/// The labels of a sample, in their order.
type Labels = Vec<(String, String)>;

/// What a text says.
pub struct Metrics {
    samples: Vec<(String, Labels, f64)>,
}

impl Metrics {
    /// Reads a text; what is not as it must be fails the test.
    #[track_caller]
    pub fn read(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line has an end");
        let mut types: BTreeMap<String, String> = BTreeMap::new();
        let mut ended: BTreeSet<String> = BTreeSet::new();
        let mut family = String::new();
        let mut samples = Vec::new();
        let mut seen = BTreeSet::new();
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, _) = help.split_once(' ').unwrap_or_else(|| panic!("no help: {line}"));
                assert!(is_name(name), "{line}");
                assert!(!types.contains_key(name), "a family twice: {line}");
                ended.insert(std::mem::replace(&mut family, name.to_owned()));
                continue;
            }
            if let Some(of_type) = line.strip_prefix("# TYPE ") {
                let (name, kind) = of_type.split_once(' ').unwrap_or_else(|| panic!("{line}"));
                assert_eq!(name, family, "the type follows the help");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert!(types.insert(name.to_owned(), kind.to_owned()).is_none(), "{line}");
                continue;
            }
            let (name, labels, value) = sample(line);
            let kind = types.get(&family).unwrap_or_else(|| panic!("no type: {line}"));
            let suffix = name.strip_prefix(family.as_str());
            let suffix = suffix.unwrap_or_else(|| panic!("{line} is not of {family}"));
            match kind.as_str() {
                "histogram" => assert!(["_bucket", "_sum", "_count"].contains(&suffix), "{line}"),
                _ => assert_eq!(suffix, "", "{line}"),
            }
            assert!(kind != "counter" || value >= 0.0, "{line}");
            assert!(seen.insert((name.clone(), labels.clone())), "a sample twice: {line}");
            samples.push((name, labels, value));
        }
        assert!(!ended.contains(&family), "{family} twice");
        let metrics = Self { samples };
        metrics.check_histograms(&types);
        metrics
    }

    fn check_histograms(&self, types: &BTreeMap<String, String>) {
        for name in types.iter().filter(|(_, kind)| *kind == "histogram").map(|(name, _)| name) {
            let mut last: BTreeMap<Labels, (f64, f64)> = BTreeMap::new();
            for (_, labels, value) in self.of(&format!("{name}_bucket")) {
                let (le, rest) = labels.split_last().expect("a bucket has a label le");
                assert_eq!(le.0, "le");
                let bound = if le.1 == "+Inf" {
                    f64::INFINITY
                } else {
                    le.1.parse().expect("le is a number")
                };
                if let Some((before, count)) = last.get(rest) {
                    assert!(*before < bound && count <= value, "{name} {labels:?}");
                }
                last.insert(rest.to_vec(), (bound, *value));
            }
            for (_, labels, value) in self.of(&format!("{name}_count")) {
                assert_eq!(last.get(labels), Some(&(f64::INFINITY, *value)), "{name} {labels:?}");
            }
        }
    }

    fn of(&self, name: &str) -> impl Iterator<Item = &(String, Labels, f64)> {
        self.samples.iter().filter(move |(found, _, _)| found == name)
    }

    /// The value of the one sample that has these labels, among others.
    #[track_caller]
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let has = |found: &Labels| {
            labels.iter().all(|(name, value)| found.iter().any(|(n, v)| n == name && v == value))
        };
        let found: Vec<f64> =
            self.of(name).filter(|(_, found, _)| has(found)).map(|(_, _, value)| *value).collect();
        let [value] = found.as_slice() else { panic!("{name} {labels:?}: {found:?}") };
        *value
    }
}

fn is_name(name: &str) -> bool {
    let first = |char: char| char.is_ascii_alphabetic() || char == '_' || char == ':';
    name.starts_with(first) && name.chars().all(|char| first(char) || char.is_ascii_digit())
}

/// `name{label="value",…} value [milliseconds]`.
#[track_caller]
fn sample(line: &str) -> (String, Labels, f64) {
    let end = line.find(['{', ' ']).unwrap_or_else(|| panic!("no value: {line}"));
    let name = &line[..end];
    assert!(is_name(name), "{line}");
    let (labels, rest) = match line[end..].strip_prefix('{') {
        Some(rest) => labels(rest),
        None => (Labels::new(), &line[end..]),
    };
    let rest = rest.strip_prefix(' ').unwrap_or_else(|| panic!("no value: {line}"));
    let mut parts = rest.split(' ');
    let value = parts.next().and_then(|value| value.parse().ok());
    if let Some(millis) = parts.next() {
        assert!(millis.parse::<u64>().is_ok(), "{line}");
    }
    assert_eq!(parts.next(), None, "{line}");
    (name.to_owned(), labels, value.unwrap_or_else(|| panic!("no number: {line}")))
}

#[track_caller]
fn labels(text: &str) -> (Labels, &str) {
    let mut labels = Labels::new();
    let mut rest = text;
    loop {
        let (name, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("{text}"));
        assert!(is_name(name), "{text}");
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next() {
                Some((at, '"')) => break at,
                Some((_, '\\')) => match chars.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, char @ ('"' | '\\'))) => value.push(char),
                    other => panic!("escape {other:?}: {text}"),
                },
                Some((_, char)) => value.push(char),
                None => panic!("a value without an end: {text}"),
            }
        };
        labels.push((name.to_owned(), value));
        rest = &after[end + 1..];
        if let Some(behind) = rest.strip_prefix('}') {
            return (labels, behind);
        }
        rest = rest.strip_prefix(',').unwrap_or_else(|| panic!("{text}"));
    }
}

/// The status and the body of what an endpoint for monitoring answers, by plain HTTP.
pub fn ask_endpoint(address: &str, method: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("connect to the endpoint");
    let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("ask");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.split(' ').nth(1).expect("a status").to_owned(), body.to_owned())
}
