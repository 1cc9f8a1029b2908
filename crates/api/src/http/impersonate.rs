//! `kubectl --as`: whoever may do everything may also act as somebody else, which can only narrow what is allowed.

use http::HeaderMap;

use crate::auth::user::MASTERS;
use crate::auth::{Identity, UserInfo};
use crate::status::ApiError;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const PREFIX: &str = "impersonate-";

/// The identity that a request acts as.
pub(super) fn identity(asking: Identity, headers: &HeaderMap) -> Result<Identity, ApiError> {
    let asked = headers.keys().any(|name| name.as_str().starts_with(PREFIX));
    if !asked {
        return Ok(asking);
    }
    let user = headers.get(USER).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if user.is_empty() {
        return Err(ApiError::bad_request(
            "an impersonated user must be named when groups, a uid or extra fields are impersonated",
        ));
    }
    match &asking {
        Identity::User(asker) if asker.is_in(MASTERS) => {
            let groups = headers.get_all(GROUP).iter().filter_map(|value| value.to_str().ok());
            Ok(Identity::User(UserInfo::new(user, groups.map(str::to_owned))))
        }
        Identity::User(_) | Identity::Anonymous => Err(ApiError::not_allowed(
            "",
            "users",
            user,
            format!(
                "users {user:?} is forbidden: User {:?} cannot impersonate resource \"users\" in API group \"\" at the \
                 cluster scope",
                asking.name()
            ),
        )),
    }
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
    fn only_masters_become_somebody_else() {
        let admin = Identity::User(UserInfo::internal("admin"));
        let bob = UserInfo::new("bob", ["dev".to_owned()]);
        let as_bob = headers(&[(USER, "bob"), (GROUP, "dev")]);
        assert_eq!(identity(admin.clone(), &as_bob), Ok(Identity::User(bob.clone())));
        assert_eq!(identity(admin.clone(), &HeaderMap::new()), Ok(admin.clone()));
        for asking in [Identity::User(bob), Identity::Anonymous] {
            assert_eq!(identity(asking, &as_bob).unwrap_err().code().as_u16(), 403);
        }
        let no_user = headers(&[(GROUP, "system:masters")]);
        assert_eq!(identity(admin, &no_user).unwrap_err().code().as_u16(), 400);
    }
}
