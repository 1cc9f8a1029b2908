//! Which resources a rule is for.

/// `secrets`, `deployments.apps`, `*.apps`, `*.` (the core group), `*.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResourcePattern {
    /// This one, as it is called in keys.
    One(String),
    /// All of this group; that of the core group is empty.
    Group(String),
    /// All.
    All,
}

impl ResourcePattern {
    /// # Errors
    /// What is wrong with the text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Required value: resources must not be empty".to_owned());
        }
        let invalid = |why: &str| Err(format!("Invalid value: {text:?}: {why}"));
        if text.chars().any(char::is_uppercase) {
            return invalid("should not contain capital letters");
        }
        if text == "*" {
            return invalid(
                "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources",
            );
        }
        match text.split_once('.') {
            Some(("*", "*")) => Ok(Self::All),
            Some(("*", group)) if !group.contains('*') => Ok(Self::Group(group.to_owned())),
            _ if text.contains('*') => {
                invalid("'*' stands for a whole resource or a whole group: *.GROUP, *. or *.*")
            }
            _ if text.contains('/') => invalid("a subresource is stored with its object"),
            _ => Ok(Self::One(text.to_owned())),
        }
    }

    /// Whether it is for a resource: `secrets`, `deployments.apps`.
    pub(crate) fn covers(&self, resource: &str) -> bool {
        match self {
            Self::One(one) => one == resource,
            Self::Group(group) => resource.split_once('.').map_or("", |(_, of)| of) == group,
            Self::All => true,
        }
    }

    /// Whether nothing is left for the other one after it.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        match other {
            Self::One(resource) => self.covers(resource),
            Self::Group(_) | Self::All => self == other || *self == Self::All,
        }
    }
}
