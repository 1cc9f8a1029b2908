//! The `rekindle.dev/v1alpha1` API: what a user writes ([`RestartLadder`], [`PodRestart`]) and what
//! Rekindle remembers ([`RestartLedger`]).

mod annotations;
mod fast_restart;
mod group_restart;
mod ladder;
mod ladder_rules;
mod ledger;
mod named_container;
mod restart;
mod restart_outcome;
mod restart_steps;
mod restart_texts;
mod runtime_restart;
mod schema_rules;

pub use annotations::*;
pub use fast_restart::*;
pub use group_restart::*;
pub use ladder::*;
pub use ladder_rules::*;
pub use ledger::*;
pub use named_container::*;
pub use restart::*;
pub use restart_outcome::*;
pub use restart_steps::*;
pub use runtime_restart::*;

/// The API group.
pub const GROUP: &str = "rekindle.dev";
/// The version.
pub const VERSION: &str = "v1alpha1";
/// Group and version as objects carry them.
pub const API_VERSION: &str = "rekindle.dev/v1alpha1";

/// Makes a struct with `metadata` an API object that k8s-openapi, kube and our registry all know.
macro_rules! api_object {
    ($kind:ident, $kind_text:literal, $list:literal, $plural:literal) => {
        impl k8s_openapi::Resource for $kind {
            const API_VERSION: &'static str = $crate::v1alpha1::API_VERSION;
            const GROUP: &'static str = $crate::v1alpha1::GROUP;
            const KIND: &'static str = $kind_text;
            const VERSION: &'static str = $crate::v1alpha1::VERSION;
            const URL_PATH_SEGMENT: &'static str = $plural;
            type Scope = k8s_openapi::NamespaceResourceScope;
        }

        impl k8s_openapi::ListableResource for $kind {
            const LIST_KIND: &'static str = $list;
        }

        impl k8s_openapi::Metadata for $kind {
            type Ty = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
            fn metadata(&self) -> &Self::Ty {
                &self.metadata
            }
            fn metadata_mut(&mut self) -> &mut Self::Ty {
                &mut self.metadata
            }
        }

        impl Default for $kind {
            fn default() -> Self {
                Self {
                    api_version: $crate::v1alpha1::API_VERSION.to_owned(),
                    kind: $kind_text.to_owned(),
                    metadata: Default::default(),
                    spec: Default::default(),
                    status: None,
                }
            }
        }
    };
}
use api_object;
