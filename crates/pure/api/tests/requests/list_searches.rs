//! A search of a list from its start takes as long as the list, and a request may bring a list of
//! 200,000 entries. Within a loop over another such list, that is minutes of work for one request.
//! So the checks keep the keys of lists in `ListKeys`, and `tests/work.rs` of the kinds counts its
//! work. The searches that are left are listed here. Each was looked at: the code knows how long
//! its list is, or it is the only search of its list (ADR 0041).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What searches a list, a map or a text from its start.
const SEARCHES: [&str; 9] = [
    ".contains(",
    ".any(",
    ".find(",
    ".find_map(",
    ".position(",
    ".rposition(",
    ".rfind(",
    ".retain(",
    ".remove(0",
];

/// The folders whose code looks at what requests bring.
const FOLDERS: [&str; 6] = [
    "api/src/admission",
    "api/src/auth/rbac",
    "api/src/decode",
    "api/src/patch",
    "api/src/selectors",
    "kinds/src",
];

/// The searches of each file.
const REVIEWED: &[(&str, usize)] = &[
    ("api/src/admission/aggregation.rs", 2),
    ("api/src/admission/certificates.rs", 1),
    ("api/src/admission/compiled_objects.rs", 2),
    ("api/src/admission/default_roles.rs", 4),
    ("api/src/admission/disruption_budgets.rs", 2),
    ("api/src/admission/ladders.rs", 1),
    ("api/src/admission/namespaces.rs", 1),
    ("api/src/admission/node_restriction.rs", 7),
    ("api/src/admission/pod_security/controls/capabilities.rs", 2),
    ("api/src/admission/pod_security/controls/mod.rs", 2),
    ("api/src/admission/pod_security/controls/se_linux.rs", 1),
    ("api/src/admission/pod_security/controls/sysctls.rs", 1),
    ("api/src/admission/pod_security/controls/volumes.rs", 1),
    ("api/src/admission/pod_security/existing_pods.rs", 1),
    ("api/src/admission/pod_security/mod.rs", 5),
    ("api/src/admission/pod_security/policy.rs", 1),
    ("api/src/admission/policies/audit.rs", 2),
    ("api/src/admission/policies/parameter_rights.rs", 1),
    ("api/src/admission/policies/parameters.rs", 3),
    ("api/src/admission/policies/validating.rs", 1),
    ("api/src/admission/priority.rs", 1),
    ("api/src/admission/reviewed_request.rs", 8),
    ("api/src/admission/runtime_classes.rs", 3),
    ("api/src/admission/service_accounts.rs", 2),
    ("api/src/admission/storage_classes.rs", 1),
    ("api/src/admission/trust_bundles.rs", 1),
    ("api/src/admission/webhooks/configurations.rs", 1),
    ("api/src/auth/rbac/covers.rs", 10),
    ("api/src/auth/rbac/policies.rs", 6),
    ("api/src/auth/rbac/rule.rs", 4),
    ("api/src/decode/media_type.rs", 2),
    ("api/src/decode/mod.rs", 2),
    ("api/src/decode/tracked.rs", 2),
    ("api/src/patch/directives.rs", 7),
    ("api/src/patch/mod.rs", 1),
    ("api/src/patch/strategic.rs", 2),
    ("api/src/patch/value_key.rs", 1),
    ("api/src/selectors/field.rs", 3),
    ("api/src/selectors/label.rs", 4),
    ("api/src/selectors/mod.rs", 1),
    ("kinds/src/admission_policy/bindings.rs", 1),
    ("kinds/src/admission_policy/match_resources.rs", 6),
    ("kinds/src/admission_policy/program.rs", 1),
    ("kinds/src/admission_webhook/mod.rs", 3),
    ("kinds/src/api_service.rs", 2),
    ("kinds/src/certificate_signing_request/certificate_request.rs", 3),
    ("kinds/src/certificate_signing_request/mod.rs", 1),
    ("kinds/src/certificate_signing_request/validate.rs", 2),
    ("kinds/src/cron_job/validate.rs", 1),
    ("kinds/src/custom_resource_definition/mod.rs", 4),
    ("kinds/src/custom_resource_definition/validate.rs", 4),
    ("kinds/src/custom_resource_definition/validate/conversion.rs", 1),
    ("kinds/src/dynamic_resources/claim_status.rs", 5),
    ("kinds/src/dynamic_resources/device.rs", 1),
    ("kinds/src/dynamic_resources/device_capacity.rs", 1),
    ("kinds/src/dynamic_resources/qualified_name.rs", 1),
    ("kinds/src/dynamic_resources/resource_slice.rs", 1),
    ("kinds/src/flow_control/flow_schema.rs", 1),
    ("kinds/src/flow_control/mod.rs", 1),
    ("kinds/src/flow_control/policy_rules.rs", 1),
    ("kinds/src/flow_control/priority_level.rs", 1),
    ("kinds/src/horizontal_pod_autoscaler/metrics.rs", 3),
    ("kinds/src/horizontal_pod_autoscaler/v1.rs", 3),
    ("kinds/src/identity/mod.rs", 2),
    ("kinds/src/ingress.rs", 1),
    ("kinds/src/ingress_class.rs", 1),
    ("kinds/src/job/mod.rs", 1),
    ("kinds/src/job/policies.rs", 3),
    ("kinds/src/job/status.rs", 2),
    ("kinds/src/job/update.rs", 1),
    ("kinds/src/ladder_annotations.rs", 2),
    ("kinds/src/namespace.rs", 1),
    ("kinds/src/node.rs", 1),
    ("kinds/src/openapi/crd/mod.rs", 1),
    ("kinds/src/openapi/schemas.rs", 4),
    ("kinds/src/openapi/v2.rs", 3),
    ("kinds/src/pod/advice.rs", 1),
    ("kinds/src/pod/defaults.rs", 1),
    ("kinds/src/pod/mod.rs", 1),
    ("kinds/src/pod/overlaps.rs", 1),
    ("kinds/src/pod/profiles.rs", 2),
    ("kinds/src/pod/resize.rs", 2),
    ("kinds/src/pod/row.rs", 2),
    ("kinds/src/pod/unenforced.rs", 4),
    ("kinds/src/pod/validate/handlers.rs", 1),
    ("kinds/src/pod/validate/mod.rs", 1),
    ("kinds/src/pod/validate/mounts.rs", 2),
    ("kinds/src/pod/validate/own_fields.rs", 4),
    ("kinds/src/pod/validate/placement.rs", 1),
    ("kinds/src/pod/validate/projected.rs", 1),
    ("kinds/src/pod/validate/resources.rs", 2),
    ("kinds/src/pod/validate/security.rs", 2),
    ("kinds/src/pod/validate/status.rs", 2),
    ("kinds/src/pod/validate/volume_claims.rs", 1),
    ("kinds/src/pod/validate/windows.rs", 1),
    ("kinds/src/pod_disruption_budget/deadlock.rs", 1),
    ("kinds/src/priority_class.rs", 1),
    ("kinds/src/rbac/binding.rs", 1),
    ("kinds/src/registry/builtin_types.rs", 2),
    ("kinds/src/registry/erased.rs", 1),
    ("kinds/src/registry/merge_keys.rs", 1),
    ("kinds/src/registry/mod.rs", 3),
    ("kinds/src/registry/object_meta.rs", 1),
    ("kinds/src/resource_quota.rs", 1),
    ("kinds/src/service/families.rs", 1),
    ("kinds/src/service/ports.rs", 1),
    ("kinds/src/service/update.rs", 2),
    ("kinds/src/service/validate.rs", 1),
    ("kinds/src/service_cidr.rs", 1),
    ("kinds/src/service_range.rs", 2),
    ("kinds/src/status_counts.rs", 1),
    ("kinds/src/storage/claim.rs", 1),
    ("kinds/src/storage/csi_driver.rs", 1),
    ("kinds/src/storage/mod.rs", 3),
    ("kinds/src/storage/volume.rs", 2),
    ("kinds/src/storage/volume_attributes_class.rs", 1),
    ("kinds/src/storage_version_migration.rs", 1),
    ("kinds/src/tls_secret.rs", 3),
    ("kinds/src/validation/paths.rs", 2),
    ("kinds/src/validation/selector.rs", 1),
    ("kinds/src/volume_sources/iscsi.rs", 1),
    ("kinds/src/volume_sources/mod.rs", 1),
];

/// The text of a file without its tests and comments.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Whether what is searched is a range or one of our own constants, or is a text that is searched
/// for a letter or a word.
fn is_constant(before: &str, after: &str) -> bool {
    let before = before.trim_end();
    if let Some(inner) = before.strip_suffix(')') {
        let is_range = inner.rsplit('(').next().is_some_and(|group| group.contains(".."));
        if is_range {
            return true;
        }
    }
    let before = before.trim_end_matches(".iter()").trim_end_matches(".into_iter()");
    let of_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    let receiver: Vec<char> = before.chars().rev().take_while(of_name).collect();
    let is_named = receiver.len() > 1 && !receiver.iter().any(char::is_ascii_lowercase);
    is_named || after.starts_with(['\'', '"', '['])
}

fn searches(text: &str) -> usize {
    let code = code(text);
    let found = SEARCHES.iter().flat_map(|search| code.match_indices(search));
    found.filter(|(at, search)| !is_constant(&code[..*at], &code[at + search.len()..])).count()
}

fn count_in(folder: &Path, root: &Path, counts: &mut BTreeMap<String, usize>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        if name.ends_with("/tests") {
            continue;
        }
        if path.is_dir() {
            count_in(&path, root, counts);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            let count = searches(&fs::read_to_string(&path).unwrap());
            if count > 0 {
                counts.insert(name, count);
            }
        }
    }
}

#[test]
fn the_searches_of_lists_are_those_that_were_reviewed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut counts = BTreeMap::new();
    for folder in FOLDERS {
        count_in(&root.join(folder), &root, &mut counts);
    }
    let reviewed: BTreeMap<String, usize> =
        REVIEWED.iter().map(|(file, count)| ((*file).to_owned(), *count)).collect();
    let mut changed: Vec<String> = Vec::new();
    for (file, now) in &counts {
        let before = reviewed.get(file).copied().unwrap_or_default();
        if *now > before {
            changed.push(format!("{file}: {now} searches, {before} reviewed"));
        }
    }
    assert!(
        changed.is_empty(),
        "where a request may bring the list, use validation::ListKeys; else write the new number into {}:\n{}",
        file!(),
        changed.join("\n")
    );
}
