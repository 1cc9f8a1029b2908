//! What is wrong with the options of a request, as upstream's validation of options says it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, Preconditions};
use rekindle_structural_schema::parse_go_duration;
use rekindle_types::validation::field_error::FieldError;
use rekindle_types::validation::field_error::FieldProblem;

use super::RequestVerb;
use super::options::{LIMIT, RequestOptions, RevisionMatch, TIMEOUT};
use crate::selectors;
use crate::status::ApiError;

const MATCH: &str = "resourceVersionMatch";
const SEND_INITIAL: &str = "sendInitialEvents";
const NO_CONTINUE: &str = "resourceVersionMatch is forbidden when continue is provided";
/// The longest name of a manager of fields.
const MANAGER_BYTES_MAX: usize = 128;

impl RequestOptions {
    /// Refuses options that make no sense for this verb.
    ///
    /// # Errors
    /// 400 when one cannot be read, 422 with each mistake otherwise.
    pub fn check(&self, verb: RequestVerb) -> Result<(), ApiError> {
        match verb {
            RequestVerb::List | RequestVerb::Watch | RequestVerb::DeleteCollection => {
                self.number(LIMIT)?;
                self.number(TIMEOUT)?;
            }
            RequestVerb::Get if self.flag("export") => {
                return Err(ApiError::bad_request(
                    "the export parameter, deprecated since v1.14, is no longer supported",
                ));
            }
            RequestVerb::Get
            | RequestVerb::Create
            | RequestVerb::Update
            | RequestVerb::Patch
            | RequestVerb::Delete => {}
        }
        let (kind, errors) = match verb {
            RequestVerb::List | RequestVerb::DeleteCollection => {
                ("ListOptions", self.list_mistakes())
            }
            RequestVerb::Watch => ("ListOptions", self.watch_mistakes()),
            RequestVerb::Create => ("CreateOptions", self.write_mistakes()),
            RequestVerb::Update => ("UpdateOptions", self.write_mistakes()),
            RequestVerb::Patch => ("PatchOptions", self.write_mistakes()),
            // the options of a deletion are checked where they are read
            RequestVerb::Get | RequestVerb::Delete => return Ok(()),
        };
        if errors.is_empty() {
            return Ok(());
        }
        // a selector that cannot be read comes before what is wrong with the rest
        if kind == "ListOptions" {
            selectors::check_texts(self)?;
        }
        Err(ApiError::invalid_options(kind, &errors))
    }

    /// Refuses a `timeout` that is no duration.
    ///
    /// # Errors
    /// 400.
    pub fn check_timeout(&self) -> Result<(), ApiError> {
        let given = self.get("timeout").filter(|given| !given.is_empty());
        match given.filter(|given| parse_go_duration(given).is_none()) {
            None => Ok(()),
            Some(given) => Err(ApiError::bad_request(format!(
                "invalid timeout specified in the request URL - {given:?} is no duration such as 30s"
            ))),
        }
    }

    /// The options of a deletion, as far as a query can say them.
    pub fn delete_options(&self) -> DeleteOptions {
        let dry_run = self.all("dryRun");
        let said = |name| self.get(name).filter(|value| !value.is_empty()).map(str::to_owned);
        let preconditions =
            Preconditions { uid: said("uid"), resource_version: said("resourceVersion") };
        DeleteOptions {
            dry_run: Some(dry_run).filter(|values| !values.is_empty()),
            grace_period_seconds: self.grace_period_seconds,
            orphan_dependents: self.orphan_dependents,
            propagation_policy: self.propagation_policy.clone(),
            preconditions: Some(preconditions).filter(|wanted| *wanted != Preconditions::default()),
            ..DeleteOptions::default()
        }
    }

    fn all(&self, name: &str) -> Vec<String> {
        let values = self.pairs.iter().filter(|(key, _)| key == name);
        values.map(|(_, value)| value.clone()).collect()
    }

    fn list_mistakes(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let given = self.get(MATCH).unwrap_or_default();
        let mut forbidden = |is: bool, field: &str, why: &str| {
            if is {
                errors.push(FieldError::forbidden(field, why));
            }
        };
        if !given.is_empty() {
            forbidden(
                self.resource_version.is_empty(),
                MATCH,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            );
            forbidden(!self.continue_token.is_empty(), MATCH, NO_CONTINUE);
            if self.resource_version_match.is_none() {
                let supported = ["Exact", "NotOlderThan", ""];
                errors.push(FieldError::not_supported(MATCH, given, &supported));
            }
            if self.resource_version_match == Some(RevisionMatch::Exact)
                && self.resource_version == "0"
            {
                let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.push(FieldError::forbidden(MATCH, why));
            }
        }
        if self.send_initial_events.is_some() {
            let why = "sendInitialEvents is forbidden for list";
            errors.push(FieldError::forbidden(SEND_INITIAL, why));
        }
        errors
    }

    fn watch_mistakes(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let given = self.get(MATCH).unwrap_or_default();
        let is_not_older = self.resource_version_match == Some(RevisionMatch::NotOlderThan);
        if self.send_initial_events.is_some() && !is_not_older {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(FieldError::forbidden(MATCH, why));
        }
        if given.is_empty() {
            // such a watch begins with the state, as if the client had asked for that
            let begins_with_state = self.send_initial_events.is_none()
                && matches!(self.resource_version.as_str(), "" | "0");
            if begins_with_state && !self.continue_token.is_empty() {
                errors.push(FieldError::forbidden(MATCH, NO_CONTINUE));
            }
            return errors;
        }
        if self.send_initial_events.is_none() {
            let why =
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(MATCH, why));
        }
        if !is_not_older {
            errors.push(FieldError::not_supported(MATCH, given, &["NotOlderThan"]));
        }
        if !self.continue_token.is_empty() {
            errors.push(FieldError::forbidden(MATCH, NO_CONTINUE));
        }
        errors
    }

    fn write_mistakes(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let manager = self.get("fieldManager").unwrap_or_default();
        if manager.len() > MANAGER_BYTES_MAX {
            errors.push(FieldError::too_long("fieldManager", MANAGER_BYTES_MAX));
        }
        if let Some((at, _)) = manager.char_indices().find(|(_, c)| c.is_control()) {
            let why = format!("should only contain printable characters: {at}");
            errors.push(FieldError::invalid("fieldManager", manager, why));
        }
        errors.extend(dry_run_mistakes(&self.all("dryRun")));
        let validation = self.get("fieldValidation").unwrap_or_default();
        if !matches!(validation, "" | "Ignore" | "Warn" | "Strict") {
            let supported = ["", "Ignore", "Strict", "Warn"];
            errors.push(FieldError::not_supported("fieldValidation", validation, &supported));
        }
        errors
    }
}

/// What is wrong with the values of `dryRun`.
pub fn dry_run_mistakes(values: &[String]) -> Option<FieldError> {
    if values.iter().all(|value| value == "All") {
        return None;
    }
    let shown = serde_json::Value::from(values.to_vec()).to_string();
    Some(FieldError {
        field: "dryRun".to_owned(),
        problem: FieldProblem::NotSupported(shown),
        detail: "supported values: \"All\"".to_owned(),
    })
}
