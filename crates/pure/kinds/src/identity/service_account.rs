//! How service accounts are named as users.

use super::{AUTHENTICATED, UserInfo};

/// What the name of such a user begins with.
pub const USER_PREFIX: &str = "system:serviceaccount:";
/// The group of all service accounts.
pub const ACCOUNTS: &str = "system:serviceaccounts";

/// `system:serviceaccount:<namespace>:<name>`.
pub fn user_name(namespace: &str, name: &str) -> String {
    format!("{USER_PREFIX}{namespace}:{name}")
}

/// The groups of a service account.
pub fn groups(namespace: &str) -> [String; 3] {
    [ACCOUNTS.to_owned(), format!("{ACCOUNTS}:{namespace}"), AUTHENTICATED.to_owned()]
}

/// A service account as a user, without a UID.
pub fn user(namespace: &str, name: &str) -> UserInfo {
    UserInfo::new(user_name(namespace, name), groups(namespace))
}

/// Namespace and name, when the user is a service account.
pub fn split(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(USER_PREFIX)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

/// Whether the user is this service account; without making its name.
pub fn is_user_name(user: &str, namespace: &str, name: &str) -> bool {
    split(user) == Some((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart_and_nonsense_is_nobody() {
        assert_eq!(split(&user_name("shop", "robot")), Some(("shop", "robot")));
        assert!(is_user_name("system:serviceaccount:shop:robot", "shop", "robot"));
        for nobody in [
            "bob",
            "system:serviceaccount:",
            "system:serviceaccount::x",
            "system:serviceaccount:a:b:c",
        ] {
            assert_eq!(split(nobody), None, "{nobody}");
        }
    }
}
