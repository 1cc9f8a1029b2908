//! The rules of admission, in one table: who looks at a write beyond the object itself, when, and
//! why. The verbs name the stages; no verb calls a rule. [`service_addresses`] is no rule: it keeps
//! its choice from validation to the write. `resource_quotas` is none either: it comes last, and
//! what it charges is written with the object.
//!
//! ```text
//!  create  Received ─ Identified ─ Defaulted ─ Warned ─ Named ─ (validation)
//!            ─ Valid ─ Final ─ (quotas) ─ write ─ Created
//!  update  Defaulted ─ Named ─ (validation) ─ Valid ─ Warned ─ Final ─ (quotas) ─ write
//!            ─ Changed, or Removed if the object goes
//!  delete  Removal ─ Deletion ─ write ─ Removed, or Marked if the object stays for a while
//! ```

use rekindle_kinds::registry::{AnyObject, KindEntry};
use rekindle_store::PendingWrite;

use super::request_bodies::RequestBody;
use super::{
    WriteReview, certificates, disruption_budgets, escalation, extension_authentication, ladders,
    limit_ranger, mutations, namespaces, node_restriction, pod_security, policies, priority,
    runtime_classes, service_accounts, storage_classes, tolerations, trust_bundles, webhooks,
};
use crate::api_services;
use crate::call::{ApiCall, ObjectPart};
use crate::custom;
use crate::service_addresses;
use crate::status::ApiError;

/// The stages of a write at which rules run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmissionStage {
    /// A new object is as it was read.
    Received,
    /// It has its UID and its time. The defaults come next.
    Identified,
    /// The defaults are in, and what this write may not change is as it was.
    Defaulted,
    /// What is written deserves a Warning header, whatever becomes of it.
    Warned,
    /// The object has its final name. Validation comes next.
    Named,
    /// The object is valid.
    Valid,
    /// The object is what will be stored.
    Final,
}

/// When a rule runs, and what it does then.
pub(super) enum RuleHook {
    /// At a stage of these writes.
    Write(AdmissionStage, RuleScope, WriteAction),
    /// When the write of a new object is queued.
    Created(QueueWrites),
    /// When the write of a changed object is queued.
    Changed(QueueWrites),
    /// When an object is deleted and stays for a while, and again with each further deletion.
    Marked(QueueWrites),
    /// When an object is asked to go: refuses that for the object of this name, or not.
    Removal(fn(&KindEntry, &str) -> Result<(), ApiError>),
    /// When an object is asked to go, by what it is: refuses, or warns.
    Deletion(CheckDeletion),
    /// When a request asks for something, and writes no object of its resource: refuses, or warns.
    Request(CheckRequest),
    /// When the removal of an object is queued.
    Removed(QueueWrites),
    /// Once a request has queued the removals of all its objects.
    AllRemoved(fn(&ApiCall<'_>) -> Result<Vec<PendingWrite>, ApiError>),
}

/// Queues what comes with a write of the object of this namespace and name.
pub(super) type QueueWrites = fn(&ApiCall<'_>, &str, &str) -> Result<Vec<PendingWrite>, ApiError>;

/// Looks at an object that shall go. Gives the warnings.
pub(super) type CheckDeletion = fn(&ApiCall<'_>, &dyn AnyObject) -> Result<Vec<String>, ApiError>;

/// Looks at a request that writes no object of its resource. Gives the warnings.
pub(super) type CheckRequest = fn(&ApiCall<'_>, &RequestBody) -> Result<Vec<String>, ApiError>;

/// Which writes a rule looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleScope {
    New,
    Changed,
    All,
}

/// What a rule does with an object that is written.
pub(super) enum WriteAction {
    /// Fills something in, or refuses.
    Fill(fn(&ApiCall<'_>, &mut dyn AnyObject) -> Result<(), ApiError>),
    /// Changes anything, by what the object was before, or refuses. Gives the warnings.
    Change(fn(&WriteReview<'_>, &mut dyn AnyObject) -> Result<Vec<String>, ApiError>),
    /// Refuses, or not.
    Check(fn(&ObjectWrite<'_>) -> Result<(), ApiError>),
    /// Refuses, or warns.
    Warn(fn(&ObjectWrite<'_>) -> Result<Vec<String>, ApiError>),
}

/// A write as a rule sees it.
pub(super) struct ObjectWrite<'w> {
    pub(super) call: &'w ApiCall<'w>,
    pub(super) new: &'w dyn AnyObject,
    /// What it replaces; none when it is new.
    pub(super) old: Option<&'w dyn AnyObject>,
    /// What the write may change of it.
    pub(super) part: ObjectPart,
}

/// No Service answers for what this program serves.
fn check_server(write: &ObjectWrite<'_>) -> Result<(), ApiError> {
    api_services::local_api_service::check_server(write.call, write.new)
}

/// One rule.
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "names and reasons are for the reader, and a test shows the table")
)]
pub(super) struct AdmissionRule {
    /// As upstream calls the plugin, where it has one.
    pub(super) name: &'static str,
    /// Why it is there, and why then.
    pub(super) why: &'static str,
    pub(super) hook: RuleHook,
}

/// Every rule. Those of a stage run from top to bottom.
pub(super) const RULES: [AdmissionRule; 55] = [
    AdmissionRule {
        name: "NodeRestriction",
        why: "an agent makes mirrors and its own Node and Lease; first, so that it learns nothing else",
        hook: RuleHook::Write(
            AdmissionStage::Received,
            RuleScope::New,
            WriteAction::Check(node_restriction::check_create),
        ),
    },
    AdmissionRule {
        name: "NamespaceLifecycle",
        why: "nothing new goes into a namespace that is missing or going",
        hook: RuleHook::Write(
            AdmissionStage::Received,
            RuleScope::New,
            WriteAction::Check(namespaces::check_create),
        ),
    },
    AdmissionRule {
        name: "DefaultTolerationSeconds",
        why: "the server's setting comes before the default of the kind, which fills what is missing",
        hook: RuleHook::Write(
            AdmissionStage::Identified,
            RuleScope::New,
            WriteAction::Fill(tolerations::fill_new),
        ),
    },
    AdmissionRule {
        name: "ServiceAccount",
        why: "a pod has an account that exists, with its identity and pull secrets",
        hook: RuleHook::Write(
            AdmissionStage::Defaulted,
            RuleScope::New,
            WriteAction::Fill(service_accounts::fill_new),
        ),
    },
    AdmissionRule {
        name: "Priority",
        why: "a pod has the priority of its class, and no other",
        hook: RuleHook::Write(
            AdmissionStage::Defaulted,
            RuleScope::New,
            WriteAction::Fill(priority::fill_new),
        ),
    },
    AdmissionRule {
        name: "NodeRestriction",
        why: "an agent changes the status of its pods and its own Node; compared once the rest is as it was",
        hook: RuleHook::Write(
            AdmissionStage::Defaulted,
            RuleScope::Changed,
            WriteAction::Check(node_restriction::check_update),
        ),
    },
    AdmissionRule {
        name: "Priority",
        why: "one class at most is the default",
        hook: RuleHook::Write(
            AdmissionStage::Defaulted,
            RuleScope::All,
            WriteAction::Check(priority::check_default),
        ),
    },
    AdmissionRule {
        name: "DefaultStorageClass",
        why: "a claim that names no class gets the default one",
        hook: RuleHook::Write(
            AdmissionStage::Defaulted,
            RuleScope::New,
            WriteAction::Fill(storage_classes::fill_new),
        ),
    },
    AdmissionRule {
        name: "PersistentVolumeClaimResize",
        why: "a claim grows only if its class lets it; of claims that may change at all",
        hook: RuleHook::Write(
            AdmissionStage::Valid,
            RuleScope::Changed,
            WriteAction::Check(storage_classes::check_growth),
        ),
    },
    AdmissionRule {
        name: "LimitRanger",
        why: "a container that does not say what it needs gets what its namespace says",
        hook: RuleHook::Write(
            AdmissionStage::Defaulted,
            RuleScope::New,
            WriteAction::Fill(limit_ranger::fill_new),
        ),
    },
    AdmissionRule {
        name: "RuntimeClass",
        why: "a pod has the overhead, node selector and tolerations of its class",
        hook: RuleHook::Write(
            AdmissionStage::Defaulted,
            RuleScope::New,
            WriteAction::Fill(runtime_classes::fill_new),
        ),
    },
    AdmissionRule {
        name: "MutatingAdmissionPolicy, MutatingAdmissionWebhook",
        why: "what an administrator wants comes after all that the server fills in by itself",
        hook: RuleHook::Write(
            AdmissionStage::Defaulted,
            RuleScope::All,
            WriteAction::Change(mutations::change),
        ),
    },
    AdmissionRule {
        name: "deadlocked budgets",
        why: "a budget that lets no pod go is seen at its first eviction only",
        hook: RuleHook::Write(
            AdmissionStage::Warned,
            RuleScope::All,
            WriteAction::Warn(disruption_budgets::warnings),
        ),
    },
    AdmissionRule {
        name: "misplaced ladders",
        why: "annotations of a ladder count on pods only",
        hook: RuleHook::Write(
            AdmissionStage::Warned,
            RuleScope::All,
            WriteAction::Warn(ladders::misplaced),
        ),
    },
    AdmissionRule {
        name: "overlapping ladders",
        why: "one of two ladders decides, and the other is seen to be silent only when something fails",
        hook: RuleHook::Write(
            AdmissionStage::Warned,
            RuleScope::All,
            WriteAction::Warn(ladders::warnings),
        ),
    },
    AdmissionRule {
        name: "namespace labels",
        why: "the label is always the name, whatever was written",
        hook: RuleHook::Write(
            AdmissionStage::Named,
            RuleScope::All,
            WriteAction::Fill(namespaces::fill_label),
        ),
    },
    AdmissionRule {
        name: "CA bundle",
        why: "pods trust it, so a change by hand is undone in the same write; known by its name",
        hook: RuleHook::Write(
            AdmissionStage::Named,
            RuleScope::All,
            WriteAction::Fill(namespaces::fill_bundle),
        ),
    },
    AdmissionRule {
        name: "extension-apiserver-authentication",
        why: "other servers trust it, so a change by hand is undone in the same write",
        hook: RuleHook::Write(
            AdmissionStage::Named,
            RuleScope::All,
            WriteAction::Fill(extension_authentication::fill),
        ),
    },
    AdmissionRule {
        name: "RBAC escalation",
        why: "a user grants no more rights than they hold; before validation, as upstream",
        hook: RuleHook::Write(
            AdmissionStage::Named,
            RuleScope::All,
            WriteAction::Check(escalation::check),
        ),
    },
    AdmissionRule {
        name: "published trust bundle",
        why: "pods trust it, so a change by hand is undone in the same write; known by its name",
        hook: RuleHook::Write(
            AdmissionStage::Named,
            RuleScope::All,
            WriteAction::Fill(trust_bundles::fill),
        ),
    },
    AdmissionRule {
        name: "ClusterTrustBundleAttest",
        why: "who writes what a signer's clients trust speaks for the signer",
        hook: RuleHook::Write(
            AdmissionStage::Valid,
            RuleScope::All,
            WriteAction::Check(trust_bundles::check_attest),
        ),
    },
    AdmissionRule {
        name: "CertificateApproval",
        why: "an approval lets its owner become another user, so it is a right over each signer",
        hook: RuleHook::Write(
            AdmissionStage::Valid,
            RuleScope::Changed,
            WriteAction::Check(certificates::check_approval),
        ),
    },
    AdmissionRule {
        name: "CertificateSigning",
        why: "who writes a certificate speaks for its signer",
        hook: RuleHook::Write(
            AdmissionStage::Valid,
            RuleScope::Changed,
            WriteAction::Check(certificates::check_signing),
        ),
    },
    AdmissionRule {
        name: "CertificateSubjectRestriction",
        why: "no request makes its owner an administrator, even if it is approved",
        hook: RuleHook::Write(
            AdmissionStage::Final,
            RuleScope::New,
            WriteAction::Check(certificates::check_subject),
        ),
    },
    AdmissionRule {
        name: "proof of possession",
        why: "a certificate goes to the owner of its key; it reads valid requests only",
        hook: RuleHook::Write(
            AdmissionStage::Valid,
            RuleScope::New,
            WriteAction::Check(certificates::check_key),
        ),
    },
    AdmissionRule {
        name: "LimitRanger",
        why: "what a pod or a claim asks for lies within the bounds of its namespace",
        hook: RuleHook::Write(
            AdmissionStage::Valid,
            RuleScope::All,
            WriteAction::Check(limit_ranger::check),
        ),
    },
    AdmissionRule {
        name: "PodSecurity",
        why: "it judges what will run, so it comes after all that fills in",
        hook: RuleHook::Write(
            AdmissionStage::Final,
            RuleScope::All,
            WriteAction::Warn(pod_security::check),
        ),
    },
    AdmissionRule {
        name: "RuntimeClass",
        why: "there is one runtime: a pod that asks for another does not get it in silence",
        hook: RuleHook::Write(
            AdmissionStage::Final,
            RuleScope::New,
            WriteAction::Check(runtime_classes::check_create),
        ),
    },
    AdmissionRule {
        name: "APIService",
        why: "the engine itself needs what it serves, so no other server answers for that",
        hook: RuleHook::Write(
            AdmissionStage::Valid,
            RuleScope::All,
            WriteAction::Check(check_server),
        ),
    },
    AdmissionRule {
        name: "policy parameters",
        why: "what a policy says can show its parameters, so its author must be allowed to read them",
        hook: RuleHook::Write(
            AdmissionStage::Valid,
            RuleScope::All,
            WriteAction::Check(policies::check_parameter_rights),
        ),
    },
    AdmissionRule {
        name: "ValidatingAdmissionPolicy",
        why: "it judges what will be stored",
        hook: RuleHook::Write(
            AdmissionStage::Final,
            RuleScope::All,
            WriteAction::Warn(policies::check),
        ),
    },
    AdmissionRule {
        name: "ValidatingAdmissionWebhook",
        why: "they judge what will be stored, and cost more to ask than all others",
        hook: RuleHook::Write(
            AdmissionStage::Final,
            RuleScope::All,
            WriteAction::Warn(webhooks::check),
        ),
    },
    AdmissionRule {
        name: "namespace furniture",
        why: "each namespace comes with its account and CA bundle, in the same batch",
        hook: RuleHook::Created(namespaces::furnish_new),
    },
    AdmissionRule {
        name: "NamespaceLifecycle",
        why: "the cluster's own namespaces stay",
        hook: RuleHook::Removal(namespaces::check_delete),
    },
    AdmissionRule {
        name: "Priority",
        why: "the system's classes stay",
        hook: RuleHook::Removal(priority::check_delete),
    },
    AdmissionRule {
        name: "ServiceCIDR",
        why: "Services have addresses of the engine's range",
        hook: RuleHook::Removal(service_addresses::check_removal),
    },
    AdmissionRule {
        name: "ValidatingAdmissionPolicy",
        why: "what an administrator wants kept stays; it needs the object, so it comes late",
        hook: RuleHook::Deletion(policies::check_deletion),
    },
    AdmissionRule {
        name: "MutatingAdmissionWebhook, ValidatingAdmissionWebhook",
        why: "what a server wants kept stays; it is asked only when no policy wants that, too",
        hook: RuleHook::Deletion(webhooks::check_deletion),
    },
    AdmissionRule {
        name: "ValidatingAdmissionPolicy",
        why: "an administrator may forbid shells, tunnels, evictions, bindings and tokens",
        hook: RuleHook::Request(policies::check_request),
    },
    AdmissionRule {
        name: "MutatingAdmissionWebhook, ValidatingAdmissionWebhook",
        why: "a server may do so; it is asked only when no policy forbids it",
        hook: RuleHook::Request(webhooks::check_request),
    },
    AdmissionRule {
        name: "namespace furniture",
        why: "what every namespace has comes back in the same batch",
        hook: RuleHook::Removed(namespaces::furnish_again),
    },
    AdmissionRule {
        name: "extension-apiserver-authentication",
        why: "other servers read it, so it comes back in the same batch",
        hook: RuleHook::Removed(extension_authentication::restore),
    },
    AdmissionRule {
        name: "published trust bundle",
        why: "pods get it by volumes, so it comes back in the same batch",
        hook: RuleHook::Removed(trust_bundles::restore),
    },
    AdmissionRule {
        name: "Service kubernetes",
        why: "pods reach the API by it, so it comes back in the same batch",
        hook: RuleHook::Removed(service_addresses::restore),
    },
    AdmissionRule {
        name: "IPAddress",
        why: "a held address has its record",
        hook: RuleHook::Removed(|call, _, name| service_addresses::restore_record(call, name)),
    },
    AdmissionRule {
        name: "ServiceCIDR",
        why: "a range that is ready may take over addresses of one that is being deleted",
        hook: RuleHook::Changed(service_addresses::settle_written),
    },
    AdmissionRule {
        name: "ServiceCIDR",
        why: "a range goes at once if no address needs it",
        hook: RuleHook::Marked(service_addresses::settle_written),
    },
    AdmissionRule {
        name: "definition names",
        why: "a definition has its names, and its kind is served, when its write is answered",
        hook: RuleHook::Created(custom::names::settle_written),
    },
    AdmissionRule {
        name: "definition names",
        why: "a changed definition may ask for other names",
        hook: RuleHook::Changed(custom::names::settle_written),
    },
    AdmissionRule {
        name: "definition names",
        why: "others may have waited for the names of a definition that went",
        hook: RuleHook::Removed(custom::names::settle_written),
    },
    AdmissionRule {
        name: "local APIServices",
        why: "a group version has its APIService when its kind is served",
        hook: RuleHook::Created(api_services::local_api_service::settle_written),
    },
    AdmissionRule {
        name: "local APIServices",
        why: "a changed definition may serve other versions",
        hook: RuleHook::Changed(api_services::local_api_service::settle_written),
    },
    AdmissionRule {
        name: "local APIServices",
        why: "a group version goes with its last definition; what is served has its APIService",
        hook: RuleHook::Removed(api_services::local_api_service::settle_written),
    },
    AdmissionRule {
        name: "definition objects",
        why: "the objects of a definition go with it",
        hook: RuleHook::Marked(custom::cleanup::after_mark),
    },
    AdmissionRule {
        name: "definition objects",
        why: "with the last of its objects a definition goes that waited for it",
        hook: RuleHook::AllRemoved(custom::cleanup::after_removals),
    },
];
