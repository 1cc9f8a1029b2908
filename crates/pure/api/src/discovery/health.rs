//! `/livez`, `/readyz` and `/healthz`, as a whole and check by check.

use http::StatusCode;

use crate::outcome::ApiAnswer;
use crate::request::RequestOptions;
use crate::shared::ApiShared;
use crate::status::ApiError;

/// The checks in the order in which they are told. The store goes by the name that tools ask for.
const CHECKS: [&str; 2] = ["ping", "etcd"];

/// Answers for one of the three endpoints; `check` is what follows it in the path.
pub(super) fn answer(
    api: &ApiShared,
    endpoint: &str,
    check: &[&str],
    query: &str,
) -> Result<ApiAnswer, ApiError> {
    match check {
        [] => Ok(all(api, endpoint, &RequestOptions::parse(query))),
        [one] if CHECKS.contains(one) => Ok(match passes(api, one) {
            Ok(()) => ApiAnswer::text(StatusCode::OK, "ok"),
            Err(why) => ApiAnswer::text(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("internal server error: {why}\n"),
            ),
        }),
        _ => Ok(ApiAnswer::text(StatusCode::NOT_FOUND, "404 page not found\n")),
    }
}

/// The front opens its door only when the store is loaded; later a store that takes no more writes
/// is not well.
fn passes(api: &ApiShared, check: &str) -> Result<(), String> {
    match check {
        "etcd" => api.store.barrier().map(drop).map_err(|error| error.to_string()),
        _ => Ok(()),
    }
}

fn all(api: &ApiShared, endpoint: &str, options: &RequestOptions) -> ApiAnswer {
    let excluded: Vec<&str> = options
        .pairs
        .iter()
        .filter(|(name, _)| name == "exclude")
        .map(|(_, value)| value.as_str())
        .collect();
    let mut text = String::new();
    let mut failed = Vec::new();
    for check in CHECKS {
        if excluded.contains(&check) {
            text.push_str(&format!("[+]{check} excluded: ok\n"));
        } else if passes(api, check).is_ok() {
            text.push_str(&format!("[+]{check} ok\n"));
        } else {
            // the reason is for those who may ask for the check itself
            text.push_str(&format!("[-]{check} failed: reason withheld\n"));
            failed.push(check);
        }
    }
    for check in excluded.iter().filter(|check| !CHECKS.contains(check)) {
        text.push_str(&format!(
            "warn: some health checks cannot be excluded: no matches for {check:?}\n"
        ));
    }
    if !failed.is_empty() {
        text.push_str(&format!("{endpoint} check failed\n"));
        return ApiAnswer::text(StatusCode::INTERNAL_SERVER_ERROR, text);
    }
    let verbose = options.pairs.iter().any(|(name, _)| name == "verbose");
    if verbose {
        text.push_str(&format!("{endpoint} check passed\n"));
        return ApiAnswer::text(StatusCode::OK, text);
    }
    ApiAnswer::text(StatusCode::OK, "ok")
}
