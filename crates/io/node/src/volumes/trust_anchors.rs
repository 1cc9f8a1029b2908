//! The certificates of authorities in projected volumes: which ClusterTrustBundles a source means,
//! and what the file says.

use std::collections::BTreeSet;

use k8s_openapi::api::certificates::v1::ClusterTrustBundle;
use k8s_openapi::api::core::v1::ClusterTrustBundleProjection;
use pem::{EncodeConfig, LineEnding, Pem};
use rekindle_types::labels;
use rekindle_types::pem_blocks::{self, CERTIFICATE};

/// Whether the source means this bundle, of those that have its name or its signer. Without a
/// selector it means none of its signer's; with an empty one, all.
pub(super) fn is_meant(source: &ClusterTrustBundleProjection, bundle: &ClusterTrustBundle) -> bool {
    if source.name.is_some() {
        return true;
    }
    let wanted = source.label_selector.as_ref();
    wanted.is_some_and(|wanted| labels::matches(wanted, bundle.metadata.labels.as_ref()))
}

/// The certificates of bundles in PEM, each once. Their order means nothing, as upstream; here it
/// is the same each time, so that a file is written again only when its content changes.
pub(super) fn joined<'a>(bundles: impl Iterator<Item = &'a str>) -> String {
    let certificates: BTreeSet<Vec<u8>> =
        bundles.flat_map(pem_blocks::blocks).map(Pem::into_contents).collect();
    let lines = EncodeConfig::new().set_line_ending(LineEnding::LF);
    let blocks = certificates.into_iter().map(|content| Pem::new(CERTIFICATE, content));
    blocks.map(|block| pem::encode_config(&block, lines)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn block(byte: u8) -> String {
        let lines = EncodeConfig::new().set_line_ending(LineEnding::LF);
        pem::encode_config(&Pem::new(CERTIFICATE, vec![byte; 3]), lines)
    }

    #[test]
    fn each_certificate_stands_once_whatever_is_around_it() {
        let first = format!("a comment\n{}{}", block(2), block(1));
        let second = format!("{}-----BEGIN CERTIFICATE-----\nnot base64!\n", block(2));
        let joined = joined([first.as_str(), second.as_str()].into_iter());
        assert_eq!(joined, format!("{}{}", block(1), block(2)));
    }

    #[test]
    fn a_signer_needs_a_selector_and_a_name_needs_none() {
        let bundle: ClusterTrustBundle = serde_json::from_value(json!({
            "metadata": {"name": "example.com:ca:1", "labels": {"stage": "live"}},
            "spec": {"signerName": "example.com/ca", "trustBundle": block(1)},
        }))
        .unwrap();
        for (source, means) in [
            (json!({"path": "p", "name": "example.com:ca:1"}), true),
            (json!({"path": "p", "signerName": "example.com/ca"}), false),
            (json!({"path": "p", "signerName": "example.com/ca", "labelSelector": {}}), true),
            (
                json!({"path": "p", "signerName": "example.com/ca",
                       "labelSelector": {"matchLabels": {"stage": "live"}}}),
                true,
            ),
            (
                json!({"path": "p", "signerName": "example.com/ca",
                       "labelSelector": {"matchLabels": {"stage": "next"}}}),
                false,
            ),
        ] {
            let source: ClusterTrustBundleProjection = serde_json::from_value(source).unwrap();
            assert_eq!(is_meant(&source, &bundle), means, "{source:?}");
        }
    }
}
