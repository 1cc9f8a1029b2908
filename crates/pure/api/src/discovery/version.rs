//! `/version`: the Kubernetes version whose API this is, with ours as build metadata.

use serde_json::json;

/// The version of Kubernetes whose behaviour is the measure.
pub(crate) const MINOR: u64 = 37;

/// The answer to `/version`.
pub(super) fn json() -> String {
    json!({
        "major": "1",
        "minor": MINOR.to_string(),
        "gitVersion": git_version(),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("linux/{}", architecture()),
    })
    .to_string()
}

/// `v1.37.0+rekindle.0.1.0`.
pub(super) fn git_version() -> String {
    format!("v1.{MINOR}.0+rekindle.{}", env!("CARGO_PKG_VERSION"))
}

/// The architecture as Go names it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
