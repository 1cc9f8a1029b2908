//! Answers the questions of policies about rights.

use rekindle_kinds::identity::{ClientIdentity, UserInfo, service_account};
use rekindle_structural_schema::{AccessAnswer, AccessQuery, Authorizer};

use crate::auth::AccessAttributes;
use crate::authority::AccessDecision;
use crate::call::ApiCall;

/// Asks for the user of a request, or for a service account that the policy names.
pub(in crate::admission) struct RequestAuthorizer<'r>(pub(super) &'r ApiCall<'r>);

impl Authorizer for RequestAuthorizer<'_> {
    fn decide(&self, query: &AccessQuery) -> AccessAnswer {
        let what = match &query.path {
            Some(path) => AccessAttributes::Path { verb: &query.verb, path },
            None => AccessAttributes::Resource {
                verb: &query.verb,
                group: &query.group,
                resource: &query.resource,
                subresource: &query.subresource,
                namespace: &query.namespace,
                name: &query.name,
            },
        };
        let account: Option<UserInfo> = query
            .service_account
            .as_ref()
            .map(|(namespace, name)| service_account::user(namespace, name));
        let user = match (&account, &self.0.request.identity) {
            (Some(account), _) => account,
            (None, ClientIdentity::User(user)) => user,
            (None, ClientIdentity::Anonymous) => {
                return answer(self.0.api.authorize(&ClientIdentity::Anonymous, &what).is_ok());
            }
        };
        match self.0.api.decide(user, &what) {
            Ok(AccessDecision::Allow(reason)) => AccessAnswer { reason, ..answer(true) },
            Ok(AccessDecision::Deny) => answer(false),
            Err(error) => AccessAnswer { error: error.to_string(), ..answer(false) },
        }
    }
}

fn answer(is_allowed: bool) -> AccessAnswer {
    AccessAnswer { is_allowed, reason: String::new(), error: String::new() }
}
