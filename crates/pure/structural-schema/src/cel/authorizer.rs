//! Questions of policies to the authorizer: may a user do something? (apiserver
//! `cel/library/authz.go`)

use std::rc::Rc;

use super::{
    eval::{EvalError, EvalResult, Evaluation},
    value::CelValue,
};

/// What a question to the authorizer costs: it may look at every role.
const CHECK_COST: u64 = 350_000;

/// Decides what users may do.
pub trait Authorizer {
    /// The answer to a question.
    fn decide(&self, query: &AccessQuery) -> AccessAnswer;
}

/// A question: may a user do something?
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessQuery {
    /// Namespace and name of the service account that asks; the user of the request if there is
    /// none.
    pub service_account: Option<(String, String)>,
    /// The verb.
    pub verb: String,
    /// A path that is no resource. The fields below are empty then.
    pub path: Option<String>,
    /// The group.
    pub group: String,
    /// The plural name of the kind.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The namespace; empty for all.
    pub namespace: String,
    /// The name of the object; empty for all.
    pub name: String,
}

/// The answer to an [`AccessQuery`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessAnswer {
    /// Whether it is allowed.
    pub is_allowed: bool,
    /// Why, or why not.
    pub reason: String,
    /// Why there is no decision; empty if there is one.
    pub error: String,
}

/// How far a question is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessStep {
    Authorizer,
    Path,
    Group,
    Resource,
    Decision,
}

impl AccessStep {
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            Self::Authorizer => "kubernetes.authorization.Authorizer",
            Self::Path => "kubernetes.authorization.PathCheck",
            Self::Group => "kubernetes.authorization.GroupCheck",
            Self::Resource => "kubernetes.authorization.ResourceCheck",
            Self::Decision => "kubernetes.authorization.Decision",
        }
    }
}

/// A question that is being put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccessQuestion {
    pub(crate) step: AccessStep,
    pub(crate) query: AccessQuery,
    pub(crate) answer: Option<AccessAnswer>,
}

impl AccessQuestion {
    /// A question of which this much is known.
    pub(super) fn begin<'a>(step: AccessStep, query: AccessQuery) -> CelValue<'a> {
        CelValue::Authorization(Rc::new(Self { step, query, answer: None }))
    }
}

/// Calls a member of a question.
pub(super) fn call<'a>(
    evaluation: &mut Evaluation<'a>,
    name: &str,
    arguments: &[CelValue<'a>],
) -> Option<EvalResult<'a>> {
    let (CelValue::Authorization(question), rest) = arguments.split_first()? else { return None };
    let mut texts = Vec::with_capacity(rest.len());
    for argument in rest {
        let CelValue::Text(text) = argument else { return None };
        texts.push(&**text);
    }
    let charged = evaluation.charge(if name == "check" { CHECK_COST } else { 1 });
    let mut query = question.query.clone();
    let step = match (question.step, name, texts.as_slice()) {
        (AccessStep::Authorizer, "serviceAccount", [namespace, account]) => {
            query.service_account = Some(((*namespace).to_owned(), (*account).to_owned()));
            AccessStep::Authorizer
        }
        (AccessStep::Authorizer, "path", [path]) => {
            query.path = Some((*path).to_owned());
            AccessStep::Path
        }
        (AccessStep::Authorizer, "group", [group]) => {
            (*group).clone_into(&mut query.group);
            AccessStep::Group
        }
        (AccessStep::Group, "resource", [resource]) => {
            (*resource).clone_into(&mut query.resource);
            AccessStep::Resource
        }
        (AccessStep::Resource, "subresource", [subresource]) => {
            (*subresource).clone_into(&mut query.subresource);
            AccessStep::Resource
        }
        (AccessStep::Resource, "namespace", [namespace]) => {
            (*namespace).clone_into(&mut query.namespace);
            AccessStep::Resource
        }
        (AccessStep::Resource, "name", [name]) => {
            (*name).clone_into(&mut query.name);
            AccessStep::Resource
        }
        // roles know no selectors: a user who may touch all may touch the selected ones
        (AccessStep::Resource, "fieldSelector" | "labelSelector", [_]) => AccessStep::Resource,
        (AccessStep::Path | AccessStep::Resource, "check", [verb]) => {
            (*verb).clone_into(&mut query.verb);
            if let Err(problem) = charged {
                return Some(Err(problem));
            }
            let Some(authorizer) = evaluation.authorizer() else {
                return Some(Err(EvalError::no_overload()));
            };
            let answer = Some(authorizer.decide(&query));
            let step = AccessStep::Decision;
            return Some(Ok(CelValue::Authorization(Rc::new(AccessQuestion {
                step,
                query,
                answer,
            }))));
        }
        (AccessStep::Decision, name, []) => {
            let answer = question.answer.as_ref()?;
            let value = match name {
                "allowed" => CelValue::Bool(answer.is_allowed),
                "errored" => CelValue::Bool(!answer.error.is_empty()),
                "reason" => CelValue::text(answer.reason.clone()),
                "error" => CelValue::text(answer.error.clone()),
                _ => return None,
            };
            return Some(charged.map(|()| value));
        }
        _ => return None,
    };
    Some(charged.map(|()| AccessQuestion::begin(step, query)))
}
