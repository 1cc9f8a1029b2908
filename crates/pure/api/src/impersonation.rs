//! `kubectl --as`: acting as somebody else, for whoever has the right `impersonate` on the user, on
//! each group, on the UID and on each extra field.

use std::collections::BTreeMap;

use crate::auth::user::AUTHENTICATED;
use crate::auth::{AccessAttributes, ClientIdentity, UserInfo, service_account};
use crate::shared::ApiShared;
use crate::status::ApiError;

/// Whom a request wants to act as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonation {
    /// The user; never empty.
    pub user: String,
    /// The groups.
    pub groups: Vec<String>,
    /// The UID.
    pub uid: Option<String>,
    /// Extra fields, their keys in small letters.
    pub extra: BTreeMap<String, Vec<String>>,
}

const AUTHENTICATION: &str = "authentication.k8s.io";

impl Impersonation {
    /// Who the request acts as. A service account without groups gets those that it has.
    pub fn identity(&self) -> ClientIdentity {
        if self.user == ClientIdentity::Anonymous.name() {
            return ClientIdentity::Anonymous;
        }
        let groups = match service_account::split(&self.user) {
            Some((namespace, _)) if self.groups.is_empty() => {
                service_account::groups(namespace).to_vec()
            }
            Some(_) | None => self.groups.clone(),
        };
        ClientIdentity::User(UserInfo {
            uid: self.uid.clone(),
            extra: self.extra.clone(),
            ..UserInfo::new(self.user.as_str(), groups)
        })
    }
}

/// Refuses what `who` may not act as.
pub(crate) fn check(
    api: &ApiShared,
    who: &ClientIdentity,
    wanted: &Impersonation,
) -> Result<(), ApiError> {
    let check = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| {
        let what = AccessAttributes::Resource {
            verb: "impersonate",
            group,
            resource,
            subresource,
            namespace,
            name,
        };
        // Nobody becomes somebody: upstream refuses that as a right which is not there.
        match who {
            ClientIdentity::Anonymous => Err(ApiError::unauthorized()),
            ClientIdentity::User(_) => api.authorize(who, &what),
        }
    };
    match service_account::split(&wanted.user) {
        Some((namespace, name)) => check("", "serviceaccounts", "", namespace, name)?,
        None => check("", "users", "", "", &wanted.user)?,
    }
    for group in wanted.groups.iter().filter(|group| *group != AUTHENTICATED) {
        check("", "groups", "", "", group)?;
    }
    if let Some(uid) = &wanted.uid {
        check(AUTHENTICATION, "uids", "", "", uid)?;
    }
    for (key, values) in &wanted.extra {
        for value in values {
            check(AUTHENTICATION, "userextras", key, "", value)?;
        }
    }
    Ok(())
}
