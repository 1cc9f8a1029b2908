//! `kubectl --as`: acting as somebody else, for whoever has the right `impersonate` on the user, on
//! each group, on the UID and on each extra field.

use std::collections::BTreeMap;

use http::HeaderMap;
use rekindle_kinds::identity::AUTHENTICATED;
use rekindle_kinds::identity::{ClientIdentity, UserInfo, service_account};

use crate::auth::AccessAttributes;
use crate::request::path::decode_percent_in_header;
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

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
const PREFIX: &str = "impersonate-";

const AUTHENTICATION: &str = "authentication.k8s.io";

impl Impersonation {
    /// What the headers of `kubectl --as` ask for; none when there is none.
    ///
    /// # Errors
    /// 400 when they name no user.
    pub fn from_headers(headers: &HeaderMap) -> Result<Option<Self>, ApiError> {
        let asked = headers.keys().any(|name| name.as_str().starts_with(PREFIX));
        if !asked {
            return Ok(None);
        }
        let values = |name: &str| {
            let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
            values.map(str::to_owned).collect::<Vec<String>>()
        };
        let first = |name: &str| values(name).into_iter().find(|value| !value.is_empty());
        let Some(user) = first(USER) else {
            return Err(ApiError::bad_request(
                "an impersonated user must be named when groups, a uid or extra fields are impersonated",
            ));
        };
        let extra: BTreeMap<String, Vec<String>> = headers
            .keys()
            .filter_map(|name| Some((name, name.as_str().strip_prefix(EXTRA)?)))
            .map(|(name, key)| (decode_percent_in_header(key), values(name.as_str())))
            .collect();
        Ok(Some(Impersonation { user, groups: values(GROUP), uid: first(UID), extra }))
    }

    /// Who the request acts as. A service account without groups gets those that it has.
    pub fn identity(&self) -> ClientIdentity {
        if self.user == ClientIdentity::Anonymous.name() {
            // a user like any other, whose rights are those of its groups
            let mut user = UserInfo::anonymous();
            user.groups.extend(self.groups.iter().cloned());
            return ClientIdentity::User(user);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn the_headers_say_whom_to_act_as() {
        assert_eq!(Impersonation::from_headers(&HeaderMap::new()), Ok(None));
        let all = headers(&[
            (USER, "bob"),
            (GROUP, "dev"),
            (GROUP, "ops"),
            (UID, "u-1"),
            ("impersonate-extra-acme.com%2fteam", "a"),
        ]);
        let bob = Impersonation {
            user: "bob".to_owned(),
            groups: vec!["dev".to_owned(), "ops".to_owned()],
            uid: Some("u-1".to_owned()),
            extra: [("acme.com/team".to_owned(), vec!["a".to_owned()])].into(),
        };
        assert_eq!(Impersonation::from_headers(&all), Ok(Some(bob)));
        let no_user = headers(&[(GROUP, "system:masters")]);
        assert_eq!(Impersonation::from_headers(&no_user).unwrap_err().code().as_u16(), 400);
    }
}
