//! What a command is about: `pod/NAME`, `deployment/NAME`, … as kubectl writes it.

mod pods;

use anyhow::bail;

pub use pods::Lookup;

/// An object named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A pod.
    Pod(String),
    /// A Deployment.
    Deployment(String),
    /// A DaemonSet.
    DaemonSet(String),
    /// A ReplicaSet.
    ReplicaSet(String),
    /// A StatefulSet.
    StatefulSet(String),
    /// A node.
    Node(String),
}

impl Target {
    /// Reads `KIND/NAME`, with kubectl's short names and plurals.
    ///
    /// # Errors
    /// When it is not of that form, or the kind is none that is served.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let Some((kind, name)) = text.split_once('/').filter(|(_, name)| !name.is_empty()) else {
            bail!("{text:?}: name the target as KIND/NAME, such as pod/web or deployment/web");
        };
        let name = name.to_owned();
        Ok(match kind.to_lowercase().as_str() {
            "pod" | "pods" | "po" => Target::Pod(name),
            "deployment" | "deployments" | "deploy" | "deployment.apps" | "deployments.apps" => {
                Target::Deployment(name)
            }
            "replicaset" | "replicasets" | "rs" | "replicaset.apps" | "replicasets.apps" => {
                Target::ReplicaSet(name)
            }
            "node" | "nodes" | "no" => Target::Node(name),
            "statefulset" | "statefulsets" | "sts" | "statefulset.apps" | "statefulsets.apps" => {
                Target::StatefulSet(name)
            }
            "daemonset" | "daemonsets" | "ds" | "daemonset.apps" | "daemonsets.apps" => {
                Target::DaemonSet(name)
            }
            _ => {
                bail!(
                    "{text:?}: the kind is one of pod, daemonset, deployment, replicaset, statefulset, node"
                )
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_with_kubectls_short_names() {
        for (text, target) in [
            ("pod/a", Target::Pod("a".to_owned())),
            ("po/a", Target::Pod("a".to_owned())),
            ("deploy/a", Target::Deployment("a".to_owned())),
            ("deployment.apps/a", Target::Deployment("a".to_owned())),
            ("ds/a", Target::DaemonSet("a".to_owned())),
            ("sts/a", Target::StatefulSet("a".to_owned())),
            ("rs/a", Target::ReplicaSet("a".to_owned())),
            ("Node/a", Target::Node("a".to_owned())),
        ] {
            assert_eq!(Target::parse(text).unwrap(), target);
        }
    }

    #[test]
    fn what_is_no_target_is_refused_and_says_what_is() {
        for (text, says) in
            [("web", "KIND/NAME"), ("pod/", "KIND/NAME"), ("service/a", "one of pod, daemonset")]
        {
            let refused = Target::parse(text).unwrap_err().to_string();
            assert!(refused.contains(says), "{refused}");
        }
    }
}
