//! ClusterTrustBundle (certificates.k8s.io/v1, KEP-3257): certificates of authorities that pods may
//! trust. Pods get them by volumes of source `clusterTrustBundle`. The API publishes that of its
//! own CA.

use std::collections::BTreeMap;

use der::Decode;
use k8s_openapi::api::certificates::v1::ClusterTrustBundle;
use rekindle_types::Tick;
use rekindle_types::pem_blocks::{self, CERTIFICATE};
use rekindle_types::validation::field_error::FieldError;
use x509_cert::Certificate;
use x509_cert::ext::pkix::BasicConstraints;

use crate::registry::resource::{ApiKind, ResourceNames, ResourceScope, TableCell, TableColumn};
use crate::table::{NAME, column, or_none};
use crate::validation::names::{self, NameRule};
use crate::validation::{MISTAKES_MAX, Path, fixed, invalid_each, signer_name, text};

/// The longest bundle, bytes. Source: upstream's `MaxTrustBundleSize`.
const BUNDLE_BYTES_MAX: usize = 1024 * 1024;

impl ApiKind for ClusterTrustBundle {
    const NAMES: ResourceNames = ResourceNames {
        singular: "clustertrustbundle",
        short_names: &[],
        categories: &[],
        scope: ResourceScope::Cluster,
    };
    // its signer decides, see `validate`
    const NAME_RULE: NameRule = NameRule::AnyText;
    const NEEDS_VERSION_ON_UPDATE: bool = true;
    const SELECTABLE_FIELDS: &'static [&'static str] = &["spec.signerName"];
    const HAS_NAMESPACE_SELECTOR: bool = false;
    const COLUMNS: &'static [TableColumn] =
        &[NAME, column("SignerName", "string", "The signer that the certificates belong to.")];

    fn validate(&self) -> Vec<FieldError> {
        let name = text(self.metadata.name.as_ref());
        let signer = text(self.spec.signer_name.as_ref());
        let mistakes = name_mistakes(name, signer);
        let mut errors: Vec<FieldError> =
            invalid_each(&Path::new("metadata").child("name"), name, mistakes).collect();
        let field = Path::new("spec");
        if !signer.is_empty() {
            errors.extend(signer_name::errors(signer, &field.child("signerName")));
        }
        errors.extend(bundle_errors(&self.spec.trust_bundle, &field.child("trustBundle")));
        errors
    }

    fn validate_update(&self, old: &Self) -> Vec<FieldError> {
        let field = Path::new("spec").child("signerName");
        let signer = text(self.spec.signer_name.as_ref());
        let is_kept = signer == text(old.spec.signer_name.as_ref());
        (!is_kept).then(|| fixed(&field, &signer)).into_iter().collect()
    }

    fn selectable_fields(&self) -> Vec<(&'static str, String)> {
        vec![("spec.signerName", text(self.spec.signer_name.as_ref()).to_owned())]
    }

    fn row(&self, _now: Tick) -> Vec<TableCell> {
        vec![text(self.metadata.name.as_ref()).into(), or_none(self.spec.signer_name.as_ref())]
    }
}

/// What is wrong with the name of a bundle. That of a signer's begins with the signer's.
pub(crate) fn name_mistakes(name: &str, signer: &str) -> Vec<String> {
    if signer.is_empty() {
        if name.contains(':') {
            let why = "ClusterTrustBundle without signer name must not have \":\" in its name";
            return vec![why.to_owned()];
        }
        return names::dns_subdomain(name);
    }
    let prefix = signer_prefix(signer);
    match name.strip_prefix(&prefix) {
        Some(rest) => names::dns_subdomain(rest),
        None => vec![format!(
            "ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"
        )],
    }
}

/// What the names of a signer's bundles begin with: `example.com:signer-name:`.
pub fn signer_prefix(signer: &str) -> String {
    format!("{}:", signer.replace('/', ":"))
}

/// The name of a signer that the name of a bundle begins with.
pub(crate) fn signer_of_name(name: &str) -> Option<String> {
    name.rsplit_once(':').map(|(signer, _)| signer.replacen(':', "/", 1))
}

/// Each block must be the certificate of an authority, and no other one the same.
fn bundle_errors(bundle: &str, field: &Path) -> Vec<FieldError> {
    if bundle.len() > BUNDLE_BYTES_MAX {
        return vec![FieldError::too_long(field, BUNDLE_BYTES_MAX)];
    }
    let mistake = |detail: String| FieldError::invalid(field, "<value omitted>", detail);
    let mut positions: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
    let mut errors = Vec::new();
    for (index, block) in pem_blocks::blocks(bundle).enumerate() {
        if errors.len() >= MISTAKES_MAX {
            break;
        }
        match block_mistake(&block) {
            Some(why) => errors.push(mistake(format!("entry {index} {why}"))),
            None => positions.entry(block.into_contents()).or_default().push(index),
        }
    }
    if !errors.is_empty() {
        return errors;
    }
    if positions.is_empty() {
        return vec![mistake("at least one trust anchor must be provided".to_owned())];
    }
    let repeated = positions.into_values().filter(|indices| indices.len() > 1);
    repeated
        .map(|indices| {
            let shown: Vec<String> = indices.iter().map(ToString::to_string).collect();
            mistake(format!("duplicate trust anchor (indices [{}])", shown.join(" ")))
        })
        .collect()
}

fn block_mistake(block: &pem::Pem) -> Option<String> {
    if block.tag() != CERTIFICATE {
        return Some(format!("has bad block type: {}", block.tag()));
    }
    if block.headers().iter().next().is_some() {
        return Some("has PEM block headers".to_owned());
    }
    let Ok(certificate) = Certificate::from_der(block.contents()) else {
        return Some("does not parse as X.509".to_owned());
    };
    match certificate.tbs_certificate().get_extension::<BasicConstraints>() {
        Ok(Some((_, constraints))) if constraints.ca => None,
        Ok(_) => Some("does not have the CA bit set".to_owned()),
        Err(_) => Some("has invalid basic constraints".to_owned()),
    }
}
