//! What a command is about, as kubectl writes it: `pod/NAME deployment/NAME`, `deployment NAME
//! NAME`, or a kind alone.

mod pods;

use anyhow::bail;

pub use pods::{Lookup, NamespacedKind};

/// The kinds that a target may be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// A CronJob.
    CronJob,
    /// A DaemonSet.
    DaemonSet,
    /// A Deployment.
    Deployment,
    /// A Job.
    Job,
    /// A node.
    Node,
    /// A pod.
    Pod,
    /// A ReplicaSet.
    ReplicaSet,
    /// A ReplicationController.
    ReplicationController,
    /// A StatefulSet.
    StatefulSet,
}

impl TargetKind {
    const ALL: [Self; 9] = [
        Self::Pod,
        Self::CronJob,
        Self::DaemonSet,
        Self::Deployment,
        Self::Job,
        Self::ReplicaSet,
        Self::ReplicationController,
        Self::StatefulSet,
        Self::Node,
    ];

    /// As kubectl prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CronJob => "cronjob",
            Self::DaemonSet => "daemonset",
            Self::Deployment => "deployment",
            Self::Job => "job",
            Self::Node => "node",
            Self::Pod => "pod",
            Self::ReplicaSet => "replicaset",
            Self::ReplicationController => "replicationcontroller",
            Self::StatefulSet => "statefulset",
        }
    }

    /// The short name of its resource, and its group.
    const fn others(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::CronJob => ("cj", Some("batch")),
            Self::DaemonSet => ("ds", Some("apps")),
            Self::Deployment => ("deploy", Some("apps")),
            Self::Job => ("job", Some("batch")),
            Self::Node => ("no", None),
            Self::Pod => ("po", None),
            Self::ReplicaSet => ("rs", Some("apps")),
            Self::ReplicationController => ("rc", None),
            Self::StatefulSet => ("sts", Some("apps")),
        }
    }

    /// Reads a kind with kubectl's short names, plurals and groups.
    fn read(word: &str) -> Option<Self> {
        let word = word.to_lowercase();
        let (name, group) = match word.split_once('.') {
            Some((name, group)) => (name, Some(group)),
            None => (word.as_str(), None),
        };
        Self::ALL.into_iter().find(|kind| {
            let (short, own_group) = kind.others();
            let is_named = name == short
                || name == kind.name()
                || name.strip_suffix('s').is_some_and(|singular| singular == kind.name());
            is_named && (group.is_none() || group == own_group)
        })
    }
}

/// An object named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandTarget {
    /// What it is.
    pub kind: TargetKind,
    /// Its name.
    pub name: String,
}

/// What the words of a command line name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedTargets {
    /// These objects, in this order.
    Each(Vec<CommandTarget>),
    /// The objects of a kind.
    All(TargetKind),
}

/// Reads `KIND/NAME…`, `KIND NAME…` or `KIND`; at least one word.
///
/// # Errors
/// When it is of none of these forms, or the kind is none that is served.
pub fn read(words: &[String]) -> anyhow::Result<NamedTargets> {
    let Some((first, names)) = words.split_first() else { bail!("name a target, {FORM}") };
    if first.contains('/') {
        return Ok(NamedTargets::Each(
            words.iter().map(|word| one(word)).collect::<Result<_, _>>()?,
        ));
    }
    let Some(kind) = TargetKind::read(first) else {
        bail!("{first:?}: name the target as {FORM}");
    };
    if let Some(word) = names.iter().find(|name| name.contains('/')) {
        bail!("{word:?} after {first:?}: write all as KIND/NAME, or one kind and then names");
    }
    let each =
        names.iter().map(|name| CommandTarget { kind, name: name.clone() }).collect::<Vec<_>>();
    Ok(if each.is_empty() { NamedTargets::All(kind) } else { NamedTargets::Each(each) })
}

/// How a target is written.
const FORM: &str = "KIND/NAME, such as pod/web or deployment/web";

fn one(text: &str) -> anyhow::Result<CommandTarget> {
    // a name goes into the path of a URL
    let is_name = |name: &str| !name.is_empty() && !name.contains('/');
    let Some((kind, name)) = text.split_once('/').filter(|(_, name)| is_name(name)) else {
        bail!("{text:?}: name the target as {FORM}");
    };
    let Some(kind) = TargetKind::read(kind) else {
        let kinds = TargetKind::ALL.map(TargetKind::name).join(", ");
        bail!("{text:?}: the kind is one of {kinds}");
    };
    Ok(CommandTarget { kind, name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn kinds_are_read_with_kubectls_short_names_plurals_and_groups() {
        for (word, kind) in [
            ("pod", TargetKind::Pod),
            ("pods", TargetKind::Pod),
            ("po", TargetKind::Pod),
            ("deploy", TargetKind::Deployment),
            ("deployments.apps", TargetKind::Deployment),
            ("ds", TargetKind::DaemonSet),
            ("sts", TargetKind::StatefulSet),
            ("rs", TargetKind::ReplicaSet),
            ("rc", TargetKind::ReplicationController),
            ("replicationcontrollers", TargetKind::ReplicationController),
            ("job.batch", TargetKind::Job),
            ("jobs", TargetKind::Job),
            ("cj", TargetKind::CronJob),
            ("Node", TargetKind::Node),
        ] {
            let named = NamedTargets::Each(vec![CommandTarget { kind, name: "a".to_owned() }]);
            assert_eq!(read(&words(&format!("{word}/a"))).unwrap(), named, "{word}");
            assert_eq!(read(&words(&format!("{word} a"))).unwrap(), named, "{word}");
            assert_eq!(read(&words(word)).unwrap(), NamedTargets::All(kind));
        }
    }

    #[test]
    fn several_are_named_in_their_order() {
        let target = |kind, name: &str| CommandTarget { kind, name: name.to_owned() };
        let both = read(&words("sts/db deploy/web")).unwrap();
        let expected =
            vec![target(TargetKind::StatefulSet, "db"), target(TargetKind::Deployment, "web")];
        assert_eq!(both, NamedTargets::Each(expected));
        let names = read(&words("deployment web api")).unwrap();
        let expected =
            vec![target(TargetKind::Deployment, "web"), target(TargetKind::Deployment, "api")];
        assert_eq!(names, NamedTargets::Each(expected));
    }

    #[test]
    fn what_is_no_target_is_refused_and_says_what_is() {
        for (text, says) in [
            ("web", "KIND/NAME"),
            ("pod/", "KIND/NAME"),
            ("pod/a/log", "KIND/NAME"),
            ("service/a", "one of pod, cronjob, daemonset"),
            ("deployment.batch/a", "one of pod"),
            ("pod a deploy/b", "write all as KIND/NAME"),
            ("pod/a b", "KIND/NAME"),
        ] {
            let refused = read(&words(text)).unwrap_err().to_string();
            assert!(refused.contains(says), "{refused}");
        }
    }
}
