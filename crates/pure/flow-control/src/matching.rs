//! Whether a rule of a FlowSchema covers a request. Compiled once for each change of an object, so
//! that a request allocates nothing.

use k8s_openapi::api::flowcontrol::v1::{
    NonResourcePolicyRule, PolicyRulesWithSubjects, ResourcePolicyRule, Subject,
};

use crate::request::{RequestDigest, RequestTarget};

const ALL: &str = "*";
/// How the name of a service account's user begins.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Some subjects, and what of their requests is covered.
#[derive(Clone, Debug)]
pub(crate) struct RuleMatcher {
    subjects: Vec<SubjectMatcher>,
    resources: Vec<ResourceMatcher>,
    paths: Vec<PathMatcher>,
    covers_every_target: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum SubjectMatcher {
    User(WordSet),
    Group(WordSet),
    ServiceAccount { namespace: String, names: WordSet },
}

#[derive(Clone, Debug)]
struct ResourceMatcher {
    verbs: WordSet,
    groups: WordSet,
    resources: WordSet,
    namespaces: WordSet,
    cluster_scope: bool,
}

#[derive(Clone, Debug)]
struct PathMatcher {
    verbs: WordSet,
    paths: WordSet,
}

/// Words, or all words.
#[derive(Clone, Debug, PartialEq, Eq)]
enum WordSet {
    All,
    Of(Vec<String>),
}

impl WordSet {
    fn new(words: &[String]) -> Self {
        if words.iter().any(|word| word == ALL) { Self::All } else { Self::Of(words.to_vec()) }
    }

    fn one(word: &str) -> Self {
        Self::new(&[word.to_owned()])
    }

    fn has(&self, word: &str) -> bool {
        self.any(|mine| mine == word)
    }

    fn any(&self, is_it: impl Fn(&str) -> bool) -> bool {
        match self {
            Self::All => true,
            Self::Of(words) => words.iter().any(|word| is_it(word)),
        }
    }

    /// Whether `resource`, or `resource/subresource`, is one of the words.
    fn has_resource(&self, resource: &str, subresource: &str) -> bool {
        if subresource.is_empty() {
            return self.has(resource);
        }
        self.any(|word| word.split_once('/') == Some((resource, subresource)))
    }

    /// Whether a word is the path, or ends in `*` and is the path's beginning before that.
    fn has_path(&self, path: &str) -> bool {
        self.any(|word| match word.strip_suffix(ALL) {
            Some(beginning) => path.starts_with(beginning),
            None => word == path,
        })
    }
}

impl RuleMatcher {
    pub(crate) fn new(rule: &PolicyRulesWithSubjects) -> Self {
        let resources: Vec<_> = rule.resource_rules.iter().flatten().map(resource).collect();
        let paths: Vec<_> = rule.non_resource_rules.iter().flatten().map(path).collect();
        let covers_every_target = resources.iter().any(ResourceMatcher::covers_everything)
            && paths.iter().any(PathMatcher::covers_everything);
        let subjects = rule.subjects.iter().filter_map(subject).collect();
        Self { subjects, resources, paths, covers_every_target }
    }

    pub(crate) fn matches(&self, request: &RequestDigest<'_>) -> bool {
        self.matches_subject(request.user, request.groups)
            && (self.covers_every_target || self.matches_target(&request.target))
    }

    fn matches_subject(&self, user: &str, groups: &[String]) -> bool {
        self.subjects.iter().any(|subject| match subject {
            SubjectMatcher::User(names) => names.has(user),
            SubjectMatcher::Group(names) => groups.iter().any(|group| names.has(group)),
            SubjectMatcher::ServiceAccount { namespace, names } => {
                let account = user.strip_prefix(SERVICE_ACCOUNT);
                account.and_then(|account| account.split_once(':')).is_some_and(
                    |(its_namespace, name)| its_namespace == namespace && names.has(name),
                )
            }
        })
    }

    fn matches_target(&self, target: &RequestTarget<'_>) -> bool {
        match *target {
            RequestTarget::Resource { verb, group, resource, subresource, namespace } => {
                self.resources.iter().any(|rule| {
                    let in_scope = match namespace {
                        "" => rule.cluster_scope,
                        namespace => rule.namespaces.has(namespace),
                    };
                    in_scope
                        && rule.verbs.has(verb)
                        && rule.groups.has(group)
                        && rule.resources.has_resource(resource, subresource)
                })
            }
            RequestTarget::Path { verb, path } => {
                self.paths.iter().any(|rule| rule.verbs.has(verb) && rule.paths.has_path(path))
            }
        }
    }
}

impl ResourceMatcher {
    fn covers_everything(&self) -> bool {
        let words = [&self.verbs, &self.groups, &self.resources, &self.namespaces];
        self.cluster_scope && words.into_iter().all(|words| *words == WordSet::All)
    }
}

impl PathMatcher {
    fn covers_everything(&self) -> bool {
        self.verbs == WordSet::All && self.paths == WordSet::All
    }
}

/// None for a subject that lacks what its kind asks for: validation refuses it.
fn subject(subject: &Subject) -> Option<SubjectMatcher> {
    match subject.kind.as_str() {
        "User" => subject.user.as_ref().map(|user| SubjectMatcher::User(WordSet::one(&user.name))),
        "Group" => {
            subject.group.as_ref().map(|group| SubjectMatcher::Group(WordSet::one(&group.name)))
        }
        "ServiceAccount" => subject.service_account.as_ref().map(|account| {
            let namespace = account.namespace.clone();
            SubjectMatcher::ServiceAccount { namespace, names: WordSet::one(&account.name) }
        }),
        _ => None,
    }
}

fn resource(rule: &ResourcePolicyRule) -> ResourceMatcher {
    ResourceMatcher {
        verbs: WordSet::new(&rule.verbs),
        groups: WordSet::new(&rule.api_groups),
        resources: WordSet::new(&rule.resources),
        namespaces: WordSet::new(rule.namespaces.as_deref().unwrap_or_default()),
        cluster_scope: rule.cluster_scope.unwrap_or(false),
    }
}

fn path(rule: &NonResourcePolicyRule) -> PathMatcher {
    PathMatcher { verbs: WordSet::new(&rule.verbs), paths: WordSet::new(&rule.non_resource_urls) }
}
