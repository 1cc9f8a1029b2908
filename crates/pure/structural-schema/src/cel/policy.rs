//! Expressions of admission policies: they see an object without a schema, the request, parameters
//! and the authorizer. (apiserver `admission/plugin/cel`)

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    fmt,
    sync::Arc,
};

use cel::common::ast::IdedExpr;
use serde_json::Value;

use super::{
    authorizer::{AccessQuery, AccessQuestion, AccessStep, Authorizer},
    check::{KnownNames, check_with},
    eval::{EvalError, Evaluation, SharedWork, TOO_EXPENSIVE},
    messages::{COMPOSED, JSON_PATCH, OBJECT, REQUEST_RESOURCE},
    names,
    nesting::depth_of,
    parse::{EXPRESSION_DEPTH_MAX, parse, placed},
    types::{CelType, UNBOUNDED},
    value::{CelValue, from_json},
};

/// What all expressions of one policy may cost for one request, of each binding and parameter.
pub const POLICY_COST_MAX: u64 = 10_000_000;
/// What all policies may cost for one request.
const REQUEST_COST_MAX: u64 = 50_000_000;
/// What reading or copying an object counts for, beside its bytes.
const OBJECT_WORK: usize = 1_000;
/// Bytes of an object that count as one unit of work.
const BYTES_IN_WORK: usize = 4;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The name of the object that has the variables of a policy as its fields.
pub(super) const VARIABLES: &str = "variables";

/// Whether a text can name a variable of a policy.
pub fn is_variable_name(name: &str) -> bool {
    names::is_identifier(name)
}

/// The names that the expressions of one policy may use.
pub struct PolicyNames {
    has_parameters: bool,
    composed: BTreeMap<String, ComposedName>,
}

/// What is known of a variable that a policy composes.
pub(super) struct ComposedName {
    pub(super) cel_type: CelType,
    /// How deep its expression nests, with the variables that it uses.
    pub(super) depth: usize,
}

/// Where an expression of a policy stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpressionPlace {
    /// It decides something: it may ask the authorizer.
    Rule,
    /// It makes a message.
    Message,
    /// It changes an object: it may make an `Object` or a `JSONPatch`, and ask the authorizer.
    Mutation,
}

impl PolicyNames {
    /// Those of a policy with `params`, or without.
    pub fn new(has_parameters: bool) -> Self {
        Self { has_parameters, composed: BTreeMap::new() }
    }

    /// Adds a variable that the policy composes. One without an expression was refused: it counts
    /// as any type, so that one mistake is reported once.
    pub fn add_variable(&mut self, name: &str, expression: Option<&PolicyExpression>) {
        let known = match expression {
            Some(PolicyExpression { cel_type, depth, .. }) => {
                ComposedName { cel_type: cel_type.clone(), depth: *depth }
            }
            None => ComposedName { cel_type: CelType::ANY, depth: 0 },
        };
        self.composed.insert(name.to_owned(), known);
    }

    fn known_in(&self, place: ExpressionPlace) -> KnownNames<'_> {
        let mut variables = vec![
            ("object".to_owned(), CelType::ANY),
            ("oldObject".to_owned(), CelType::ANY),
            ("request".to_owned(), request_type()),
            ("namespaceObject".to_owned(), namespace_type()),
        ];
        if self.has_parameters {
            variables.push(("params".to_owned(), CelType::ANY));
        }
        if !self.composed.is_empty() {
            variables.push((VARIABLES.to_owned(), CelType::Message(COMPOSED.into())));
        }
        match place {
            ExpressionPlace::Message => {}
            ExpressionPlace::Rule | ExpressionPlace::Mutation => {
                let step = CelType::Authorization;
                variables.push(("authorizer".to_owned(), step(AccessStep::Authorizer)));
                variables.push((REQUEST_RESOURCE.to_owned(), step(AccessStep::Resource)));
            }
        }
        let has_messages = place == ExpressionPlace::Mutation;
        KnownNames { variables, composed: Some(&self.composed), has_messages }
    }
}

/// What an expression must evaluate to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpressionResult {
    /// Yes or no.
    Bool,
    /// A text.
    Text,
    /// A text, or null.
    TextOrNull,
    /// Anything.
    Any,
    /// An `Object` to apply.
    Object,
    /// A list of `JSONPatch`.
    JsonPatch,
}

impl ExpressionResult {
    fn is_met(self, cel_type: &CelType) -> bool {
        let is_message =
            |of: &CelType, name: &str| matches!(of, CelType::Message(known) if &**known == name);
        match (self, cel_type) {
            (Self::Any, _)
            | (Self::Bool, CelType::Bool)
            | (Self::Text | Self::TextOrNull, CelType::Text(_))
            | (Self::TextOrNull, CelType::Null) => true,
            (Self::Object, other) => is_message(other, OBJECT),
            (Self::JsonPatch, CelType::List(item, size)) => {
                is_message(item, JSON_PATCH) || *size == 0
            }
            (Self::Bool | Self::Text | Self::TextOrNull | Self::JsonPatch, _) => false,
        }
    }

    const fn shown(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Text => "string",
            Self::TextOrNull => "one of [string null_type]",
            Self::Any => "any",
            Self::Object => OBJECT,
            Self::JsonPatch => "list(JSONPatch)",
        }
    }
}

/// An expression of a policy that was found right.
pub struct PolicyExpression {
    root: IdedExpr,
    cel_type: CelType,
    depth: usize,
}

impl fmt::Debug for PolicyExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PolicyExpression({})", self.cel_type)
    }
}

impl PolicyExpression {
    /// Compiles an expression that must evaluate to `wanted`.
    ///
    /// # Errors
    /// What is wrong with it, as upstream says it.
    pub fn compile(
        text: &str,
        names: &PolicyNames,
        place: ExpressionPlace,
        wanted: ExpressionResult,
    ) -> Result<Self, String> {
        let failed = |problem: String| format!("compilation failed: {problem}");
        let root = parse(text).map_err(failed)?;
        let checked = check_with(&root, names.known_in(place))
            .map_err(|problems| failed(placed(text, &problems)))?;
        // a variable is evaluated in the middle of the expression that uses it first
        let depth = depth_of(text).saturating_add(checked.composed_depth);
        if depth > EXPRESSION_DEPTH_MAX {
            return Err(format!(
                "compilation failed: the expression nests more than {EXPRESSION_DEPTH_MAX} levels \
                 with the variables that it uses"
            ));
        }
        if !wanted.is_met(&checked.cel_type) {
            let (wanted, found) = (wanted.shown(), type_in_words(&checked.cel_type));
            return Err(format!("must evaluate to {wanted} but got {found}"));
        }
        Ok(Self { root, cel_type: checked.cel_type, depth })
    }

    pub(super) fn root(&self) -> &IdedExpr {
        &self.root
    }
}

/// A type as upstream names it where it names types of results.
pub(super) fn type_in_words(cel_type: &CelType) -> String {
    match cel_type {
        CelType::Null => "null_type".to_owned(),
        CelType::Duration(_) => "google.protobuf.Duration".to_owned(),
        CelType::Timestamp(_) => "google.protobuf.Timestamp".to_owned(),
        other => other.to_string(),
    }
}

/// The variables that a policy composes, by name. Each is evaluated when an expression first uses
/// it.
pub type PolicyVariables = BTreeMap<String, PolicyExpression>;

/// What the expressions of a policy see.
#[derive(Clone, Copy)]
pub struct PolicyInput<'a> {
    /// The object that is written; null when it is deleted.
    pub object: &'a Value,
    /// The object as it was; null when it is new.
    pub old_object: &'a Value,
    /// The request (`AdmissionRequest`).
    pub request: &'a Value,
    /// The namespace of the object; null when it has none.
    pub namespace: &'a Value,
    /// The parameter, of a policy that has parameters. Null where its binding names none.
    pub parameter: Option<&'a Value>,
    /// Who asks, for questions that no service account asks.
    pub authorizer: &'a dyn Authorizer,
    /// The question whether the request itself is allowed, up to the verb.
    pub request_resource: &'a AccessQuery,
}

/// Why an expression of a policy has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionFailure(pub String);

/// What all evaluations for one request share: what they compiled, and what they may cost in all.
pub struct PolicyWork {
    shared: RefCell<SharedWork>,
    cost_left: Cell<u64>,
}

impl Default for PolicyWork {
    fn default() -> Self {
        Self { shared: RefCell::default(), cost_left: Cell::new(REQUEST_COST_MAX) }
    }
}

impl PolicyWork {
    /// Counts bytes of objects that are read, copied or patched for policies.
    ///
    /// # Errors
    /// All policies together have done too much for one request.
    pub fn charge_bytes(&self, bytes: usize) -> Result<(), ExpressionFailure> {
        let mut shared = self.shared.borrow_mut();
        shared.charge(OBJECT_WORK.saturating_add(bytes / BYTES_IN_WORK)).map_err(failure)
    }
}

/// The evaluation of one policy, with one binding and one parameter.
pub struct PolicyEvaluation<'a> {
    evaluation: Evaluation<'a>,
    cost_left: u64,
    work: &'a PolicyWork,
}

impl<'a> PolicyEvaluation<'a> {
    /// Of these inputs and variables. They are not evaluated before they are used.
    pub fn new(
        input: PolicyInput<'a>,
        variables: &'a PolicyVariables,
        work: &'a PolicyWork,
    ) -> Self {
        let question = |step, query| AccessQuestion::begin(step, query);
        let json = |value: &'a Value| from_json(value, None, false);
        let mut inputs = vec![
            ("object", json(input.object)),
            ("oldObject", json(input.old_object)),
            ("request", json(input.request)),
            ("namespaceObject", json(input.namespace)),
            ("authorizer", question(AccessStep::Authorizer, AccessQuery::default())),
            (REQUEST_RESOURCE, question(AccessStep::Resource, input.request_resource.clone())),
        ];
        inputs.extend(input.parameter.map(|parameter| ("params", json(parameter))));
        let evaluation = Evaluation::of_policy(&work.shared, inputs, input.authorizer, variables);
        Self { evaluation, cost_left: POLICY_COST_MAX, work }
    }

    /// The same for a policy that has this much left to spend.
    #[must_use]
    pub fn within(self, cost_left: u64) -> Self {
        Self { cost_left, ..self }
    }

    /// Evaluates a condition.
    ///
    /// # Errors
    /// It has no result, or another one.
    pub fn condition(
        &mut self,
        expression: &'a PolicyExpression,
    ) -> Result<bool, ExpressionFailure> {
        match self.value(expression)? {
            CelValue::Bool(value) => Ok(value),
            _ => Err(ExpressionFailure("no such overload".to_owned())),
        }
    }

    /// Evaluates a text; none when it is null.
    ///
    /// # Errors
    /// It has no result, or another one.
    pub fn text(
        &mut self,
        expression: &'a PolicyExpression,
    ) -> Result<Option<String>, ExpressionFailure> {
        match self.value(expression)? {
            CelValue::Text(text) => Ok(Some(text.to_string())),
            CelValue::Null => Ok(None),
            _ => Err(ExpressionFailure("no such overload".to_owned())),
        }
    }

    /// Evaluates what a mutation makes, as JSON.
    ///
    /// # Errors
    /// It has no result, or one that JSON cannot hold.
    pub fn json(&mut self, expression: &'a PolicyExpression) -> Result<Value, ExpressionFailure> {
        let value = self.value(expression)?;
        self.evaluation.as_json(&value).map_err(failure)
    }

    /// What this policy may still cost, with the same binding and parameter.
    pub fn cost_left(&self) -> u64 {
        self.cost_left
    }

    fn value(
        &mut self,
        expression: &'a PolicyExpression,
    ) -> Result<CelValue<'a>, ExpressionFailure> {
        let left = self.cost_left.min(self.work.cost_left.get());
        if left == 0 {
            return Err(ExpressionFailure(OUT_OF_BUDGET.to_owned()));
        }
        let (result, cost) = self.evaluation.run_within(&expression.root, left);
        self.cost_left = self.cost_left.saturating_sub(cost);
        self.work.cost_left.set(self.work.cost_left.get().saturating_sub(cost));
        result.map_err(failure)
    }
}

fn failure(problem: EvalError) -> ExpressionFailure {
    ExpressionFailure(match problem {
        EvalError::Failed(why) => why,
        EvalError::TooExpensive => TOO_EXPENSIVE.to_owned(),
    })
}

pub(super) fn object_type(fields: impl IntoIterator<Item = (&'static str, CelType)>) -> CelType {
    let fields = fields.into_iter().map(|(name, cel_type)| (name.to_owned(), cel_type));
    CelType::Object(Arc::new(fields.collect()))
}

fn list_of_texts() -> CelType {
    CelType::List(Arc::new(CelType::text()), UNBOUNDED)
}

fn map_of(values: CelType) -> CelType {
    CelType::Map(Arc::new(CelType::text()), Arc::new(values), UNBOUNDED)
}

/// `request`: an AdmissionRequest of admission.k8s.io/v1, without the objects.
fn request_type() -> CelType {
    let text = CelType::text;
    let kind = || object_type([("group", text()), ("version", text()), ("kind", text())]);
    let resource = || object_type([("group", text()), ("version", text()), ("resource", text())]);
    let user = object_type([
        ("username", text()),
        ("uid", text()),
        ("groups", list_of_texts()),
        ("extra", map_of(list_of_texts())),
    ]);
    object_type([
        ("kind", kind()),
        ("resource", resource()),
        ("subResource", text()),
        ("requestKind", kind()),
        ("requestResource", resource()),
        ("requestSubResource", text()),
        ("name", text()),
        ("namespace", text()),
        ("operation", text()),
        ("userInfo", user),
        ("dryRun", CelType::Bool),
        ("options", CelType::ANY),
    ])
}

/// `namespaceObject`: what a policy may see of a namespace.
fn namespace_type() -> CelType {
    let text = CelType::text;
    let metadata = object_type([
        ("name", text()),
        ("generateName", text()),
        ("namespace", text()),
        ("labels", map_of(text())),
        ("annotations", map_of(text())),
        ("UID", text()),
        ("creationTimestamp", CelType::ANY),
        ("deletionGracePeriodSeconds", CelType::Int),
        ("deletionTimestamp", CelType::ANY),
        ("generation", CelType::Int),
        ("resourceVersion", text()),
        ("finalizers", list_of_texts()),
    ]);
    object_type([
        ("metadata", metadata),
        ("spec", object_type([("finalizers", list_of_texts())])),
        ("status", object_type([("phase", text())])),
    ])
}
