//! Identities.

use std::collections::BTreeMap;

use k8s_openapi::api::authentication::v1::UserInfo as ShownUser;

pub mod service_account;

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientIdentity {
    /// Somebody who did not say so. May see health and version, nothing else.
    Anonymous,
    /// A user that a certificate, or this process itself, vouches for.
    User(UserInfo),
}

/// A user, in the terms of `authentication.k8s.io/v1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// The name, for example `kubernetes-admin`.
    pub name: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Tells apart users that have the same name one after the other; service accounts have one.
    pub uid: Option<String>,
    /// More that is known of them, for example the pod that a token was made for.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The name of a client that did not say who it is.
const ANONYMOUS: &str = "system:anonymous";
/// The group whose members may do everything.
pub const MASTERS: &str = "system:masters";
/// The group of node agents with a process of their own.
pub const NODES: &str = "system:nodes";
/// The namespace of what the cluster itself runs.
const KUBE_SYSTEM: &str = "kube-system";
/// The group of everybody who is somebody.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of everybody who is nobody.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";

impl UserInfo {
    /// A user with these groups, and with the group of all authenticated users.
    pub fn new(name: impl Into<String>, groups: impl IntoIterator<Item = String>) -> Self {
        let mut groups: Vec<String> = groups.into_iter().collect();
        if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self { name: name.into(), groups, ..Self::default() }
    }

    /// A client that did not say who it is.
    pub fn anonymous() -> Self {
        let groups = vec![UNAUTHENTICATED.to_owned()];
        Self { name: ANONYMOUS.to_owned(), groups, ..Self::default() }
    }

    /// A part of this process, for example `system:rekindle:node`: trusted with everything.
    pub fn internal(name: impl Into<String>) -> Self {
        Self::new(name, [MASTERS.to_owned()])
    }

    /// Whether the cluster itself depends on it: administrators, node agents, and what runs in
    /// kube-system. The front keeps room for these.
    pub fn is_system(&self) -> bool {
        let in_kube_system = || {
            service_account::split(&self.name)
                .is_some_and(|(namespace, _)| namespace == KUBE_SYSTEM)
        };
        self.is_in(MASTERS) || self.is_in(NODES) || in_kube_system()
    }

    /// As reviews and the audit log show the user.
    pub fn shown(&self) -> ShownUser {
        ShownUser {
            username: Some(self.name.clone()),
            groups: Some(self.groups.clone()),
            uid: self.uid.clone(),
            extra: Some(self.extra.clone()).filter(|extra| !extra.is_empty()),
        }
    }

    /// Whether the user is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|mine| mine == group)
    }
}

impl ClientIdentity {
    /// The server itself, which makes what every cluster has.
    pub fn server() -> Self {
        Self::User(UserInfo::internal("system:rekindle"))
    }

    /// The name as error texts show it.
    pub fn name(&self) -> &str {
        match self {
            Self::Anonymous => ANONYMOUS,
            Self::User(user) => &user.name,
        }
    }

    /// As reviews and the audit log show it.
    pub fn shown(&self) -> ShownUser {
        match self {
            Self::Anonymous => UserInfo::anonymous().shown(),
            Self::User(user) => user.shown(),
        }
    }
}
