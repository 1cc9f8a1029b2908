//! A node's settings as a kubelet's configuration file names them (`kubelet.config.k8s.io/v1beta1`
//! KubeletConfiguration): those that this node carries out, and no others.

use std::path::PathBuf;

use rekindle_types::{TickDuration, span};
use serde::Deserialize;
use serde_json::Value;

use crate::eviction::{Amounts, Defaults, EvictionPolicy, EvictionPolicyError, ThresholdSettings};
use crate::images::ImageGcPolicy;
use crate::shutdown::{ShutdownGroup, ShutdownPolicy};
use crate::sysctls::{AllowedSysctls, SysctlsError};
use crate::users::{UserIdRanges, UserIdsError};

const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
const KIND: &str = "KubeletConfiguration";

/// What is set for a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSettings {
    /// When pods are evicted.
    pub eviction: EvictionPolicy,
    /// The time that pods get when the node is shut down.
    pub shutdown: ShutdownPolicy,
    /// When unused images are removed.
    pub image_gc: ImageGcPolicy,
    /// Pods that the node takes at most; none: the kubelet's default.
    pub max_pods: Option<u32>,
    /// The node's resolver; none: `/etc/resolv.conf`, and for pods what is behind a stub on the
    /// loopback.
    pub resolv_conf: Option<PathBuf>,
    /// The user ids that pods with users of their own get, on the machine's first node.
    pub user_ids: UserIdRanges,
    /// Kernel settings that pods may have beside the safe ones.
    pub sysctls: AllowedSysctls,
    /// For so long the end of a container waits for the rules that lead new connections to its pod;
    /// none: the default.
    pub endpoint_withdrawal_timeout: Option<TickDuration>,
}

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// It is no such file, or has settings that this node does not know.
    #[error("{0}")]
    Shape(String),
    /// It is of another kind.
    #[error("{field}: {given:?} is not {expected}")]
    Type {
        /// `apiVersion` or `kind`.
        field: &'static str,
        /// What it says.
        given: String,
        /// What it should say.
        expected: &'static str,
    },
    /// A span of time that is none.
    #[error("{field}: {text:?} is no span of time such as 1m30s")]
    Span {
        /// The setting.
        field: &'static str,
        /// What it says.
        text: String,
    },
    /// Settings that contradict each other, or ask for what cannot be.
    #[error("{0}")]
    Combination(String),
    /// Thresholds that are none.
    #[error(transparent)]
    Eviction(#[from] EvictionPolicyError),
    /// Kernel settings that cannot be allowed.
    #[error(transparent)]
    Sysctls(#[from] SysctlsError),
    /// User ids that cannot be given.
    #[error(transparent)]
    Users(#[from] UserIdsError),
}

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct SettingsFile {
    api_version: Option<String>,
    kind: Option<String>,
    shutdown_grace_period: Option<String>,
    shutdown_grace_period_critical_pods: Option<String>,
    shutdown_grace_period_by_pod_priority: Vec<ShutdownGroupSetting>,
    eviction_hard: Option<Amounts>,
    eviction_soft: Amounts,
    eviction_soft_grace_period: Amounts,
    eviction_minimum_reclaim: Amounts,
    eviction_pressure_transition_period: Option<String>,
    eviction_max_pod_grace_period: i32,
    merge_default_eviction_settings: bool,
    /// Ours: the kubelet looks every ten seconds.
    eviction_monitoring_period: Option<String>,
    #[serde(rename = "imageGCHighThresholdPercent")]
    image_gc_high_threshold_percent: Option<u64>,
    #[serde(rename = "imageGCLowThresholdPercent")]
    image_gc_low_threshold_percent: Option<u64>,
    #[serde(rename = "imageMinimumGCAge")]
    image_minimum_gc_age: Option<String>,
    max_pods: Option<u32>,
    resolv_conf: Option<PathBuf>,
    user_namespaces: UserNamespaces,
    allowed_unsafe_sysctls: Vec<String>,
    /// Ours: kubelet and kube-proxy do not wait for each other.
    endpoint_withdrawal_timeout: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct UserNamespaces {
    ids_per_pod: Option<i64>,
    /// Ours: the kubelet asks getsubids(1) for the ids of the user "kubelet".
    first_id: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ShutdownGroupSetting {
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    shutdown_grace_period_seconds: u32,
}

impl NodeSettings {
    /// Reads them.
    ///
    /// # Errors
    /// When a setting is unknown, or is none that the kubelet would take.
    pub fn read(file: &Value) -> Result<Self, SettingsError> {
        let file = match file {
            Value::Null => SettingsFile::default(),
            file => serde_path_to_error::deserialize(file)
                .map_err(|error| SettingsError::Shape(error.to_string()))?,
        };
        for (field, given, expected) in
            [("apiVersion", &file.api_version, API_VERSION), ("kind", &file.kind, KIND)]
        {
            if let Some(given) = given.as_ref().filter(|given| *given != expected) {
                return Err(SettingsError::Type { field, given: given.clone(), expected });
            }
        }
        Ok(Self {
            eviction: eviction(&file)?,
            shutdown: shutdown(&file)?,
            image_gc: image_gc(&file)?,
            endpoint_withdrawal_timeout: endpoint_withdrawal_timeout(&file)?,
            max_pods: file.max_pods,
            resolv_conf: resolv_conf(file.resolv_conf)?,
            user_ids: UserIdRanges::new(
                file.user_namespaces.first_id,
                file.user_namespaces.ids_per_pod,
            )?,
            sysctls: AllowedSysctls::new(&file.allowed_unsafe_sysctls)?,
        })
    }
}

/// Less is over before the rules can be written; more than a usual grace period helps no client.
fn endpoint_withdrawal_timeout(file: &SettingsFile) -> Result<Option<TickDuration>, SettingsError> {
    const FIELD: &str = "endpointWithdrawalTimeout";
    const MIN: TickDuration = TickDuration::from_millis(100);
    const MAX: TickDuration = TickDuration::from_secs(30);
    let timeout = duration(FIELD, &file.endpoint_withdrawal_timeout)?;
    match timeout {
        Some(timeout) if !(MIN..=MAX).contains(&timeout) => {
            Err(SettingsError::Combination(format!("{FIELD}: must be from 100ms to 30s")))
        }
        timeout => Ok(timeout),
    }
}

/// An agent does not run where the file was written.
fn resolv_conf(path: Option<PathBuf>) -> Result<Option<PathBuf>, SettingsError> {
    match path {
        Some(path) if !path.is_absolute() => Err(SettingsError::Combination(format!(
            "resolvConf: {} is no absolute path",
            path.display()
        ))),
        given => Ok(given),
    }
}

fn image_gc(file: &SettingsFile) -> Result<ImageGcPolicy, SettingsError> {
    let default = ImageGcPolicy::default();
    let high = file.image_gc_high_threshold_percent.unwrap_or(default.high_threshold_percent);
    let low = file.image_gc_low_threshold_percent.unwrap_or(default.low_threshold_percent);
    let wrong = |why: String| Err(SettingsError::Combination(why));
    if high > 100 {
        return wrong(format!("imageGCHighThresholdPercent: {high} is more than 100"));
    }
    if low >= high {
        return wrong(format!(
            "imageGCLowThresholdPercent: {low} must be less than imageGCHighThresholdPercent, {high}"
        ));
    }
    Ok(ImageGcPolicy {
        high_threshold_percent: high,
        low_threshold_percent: low,
        min_age: duration("imageMinimumGCAge", &file.image_minimum_gc_age)?
            .unwrap_or(default.min_age),
    })
}

fn eviction(file: &SettingsFile) -> Result<EvictionPolicy, SettingsError> {
    let default = EvictionPolicy::default();
    let thresholds = EvictionPolicy::read_thresholds(&ThresholdSettings {
        hard: file.eviction_hard.clone(),
        defaults: match file.merge_default_eviction_settings {
            true => Defaults::Merged,
            false => Defaults::Replaced,
        },
        soft: file.eviction_soft.clone(),
        soft_grace: file.eviction_soft_grace_period.clone(),
        min_reclaim: file.eviction_minimum_reclaim.clone(),
    })?;
    let grace = u64::try_from(file.eviction_max_pod_grace_period).map_err(|_| {
        SettingsError::Combination("evictionMaxPodGracePeriod: must not be negative".to_owned())
    })?;
    let transition = &file.eviction_pressure_transition_period;
    let monitoring = &file.eviction_monitoring_period;
    let policy = EvictionPolicy {
        thresholds,
        // as upstream, zero is the default
        transition_period: duration("evictionPressureTransitionPeriod", transition)?
            .filter(|span| *span > TickDuration::ZERO)
            .unwrap_or(default.transition_period),
        max_pod_grace: TickDuration::from_secs(grace),
        monitoring_period: duration("evictionMonitoringPeriod", monitoring)?
            .unwrap_or(default.monitoring_period),
    };
    if policy.monitoring_period < MONITORING_PERIOD_MIN {
        let why = "evictionMonitoringPeriod: must be 100ms or more".to_owned();
        return Err(SettingsError::Combination(why));
    }
    Ok(policy)
}

/// Looking more often than this would cost more than it brings.
const MONITORING_PERIOD_MIN: TickDuration = TickDuration::from_millis(100);

fn shutdown(file: &SettingsFile) -> Result<ShutdownPolicy, SettingsError> {
    const TOTAL: &str = "shutdownGracePeriod";
    const CRITICAL: &str = "shutdownGracePeriodCriticalPods";
    let total = whole_seconds(TOTAL, &file.shutdown_grace_period)?;
    let critical = whole_seconds(CRITICAL, &file.shutdown_grace_period_critical_pods)?;
    let wrong = |why: String| Err(SettingsError::Combination(why));
    if !file.shutdown_grace_period_by_pod_priority.is_empty() {
        if total > 0 || critical > 0 {
            return wrong(format!(
                "cannot specify both shutdownGracePeriodByPodPriority and {TOTAL} at the same time"
            ));
        }
        let groups = file.shutdown_grace_period_by_pod_priority.iter();
        return Ok(ShutdownPolicy::by_priority(
            groups
                .map(|group| ShutdownGroup {
                    priority: group.priority,
                    shutdown_grace_period_seconds: group.shutdown_grace_period_seconds,
                })
                .collect(),
        ));
    }
    if critical > total {
        return wrong(format!("{TOTAL} {total}s must be >= {CRITICAL} {critical}s"));
    }
    Ok(ShutdownPolicy::of_periods(total, critical))
}

/// Whole seconds; zero, or one and more.
fn whole_seconds(field: &'static str, text: &Option<String>) -> Result<u32, SettingsError> {
    let span = duration(field, text)?.unwrap_or(TickDuration::ZERO);
    if span > TickDuration::ZERO && span < TickDuration::from_secs(1) {
        let why = format!("{field} must be either zero or otherwise >= 1 sec");
        return Err(SettingsError::Combination(why));
    }
    Ok(u32::try_from(span.as_secs()).unwrap_or(u32::MAX))
}

fn duration(
    field: &'static str,
    text: &Option<String>,
) -> Result<Option<TickDuration>, SettingsError> {
    let Some(text) = text else { return Ok(None) };
    let span = span::parse(text);
    span.map(Some).map_err(|_| SettingsError::Span { field, text: text.clone() })
}

#[cfg(test)]
mod tests;
