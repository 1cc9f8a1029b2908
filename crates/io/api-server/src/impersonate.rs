//! The headers of `kubectl --as`.

use std::collections::BTreeMap;

use http::HeaderMap;
use rekindle_api::Impersonation;
use rekindle_api::request::path::decode_percent_in_header;
use rekindle_api::status::ApiError;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
const PREFIX: &str = "impersonate-";

/// Whom a request wants to act as; none when it does not say.
pub(super) fn wanted(headers: &HeaderMap) -> Result<Option<Impersonation>, ApiError> {
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
        assert_eq!(wanted(&HeaderMap::new()), Ok(None));
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
        assert_eq!(wanted(&all), Ok(Some(bob)));
        let no_user = headers(&[(GROUP, "system:masters")]);
        assert_eq!(wanted(&no_user).unwrap_err().code().as_u16(), 400);
    }
}
