//! What the API asks of pods and tokens beside what their namespaces say.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// Settings of the API server, under the names of kube-apiserver's flags.
#[derive(Args, Clone, Debug)]
pub struct AdmissionArgs {
    /// An AdmissionConfiguration with the plugin PodSecurity: defaults for all namespaces, and what
    /// is exempt; see docs/pod-security.md
    #[arg(long, value_name = "FILE", env = "REKINDLE_ADMISSION_CONTROL_CONFIG_FILE")]
    pub admission_control_config_file: Option<PathBuf>,
    /// The longest life of a service account's token, 1h or more; a request for more is shortened,
    /// with a warning
    #[arg(long, value_name = "DURATION", default_value = "365d", value_parser = token_expiration)]
    pub service_account_max_token_expiration: Duration,
}

/// The bounds are kube-apiserver's.
fn token_expiration(text: &str) -> Result<Duration, String> {
    let period = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if (3600..=u64::from(u32::MAX)).contains(&period.as_secs()) {
        Ok(period)
    } else {
        Err("give 1h to 4294967295s".to_owned())
    }
}

impl AdmissionArgs {
    /// The longest life of a token, in seconds.
    pub fn token_seconds_max(&self) -> u32 {
        let seconds = self.service_account_max_token_expiration.as_secs();
        u32::try_from(seconds).unwrap_or(u32::MAX)
    }
}
