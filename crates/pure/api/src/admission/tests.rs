//! The table of rules, as a reader has it before them.

use expect_test::expect;

use super::table::{RULES, RuleHook, WriteAction};

#[test]
fn the_rules_run_in_this_order_and_each_says_why() {
    let mut text = String::new();
    for rule in &RULES {
        let when = match &rule.hook {
            RuleHook::Write(stage, scope, action) => {
                let does = match action {
                    WriteAction::Fill(_) => "fills",
                    WriteAction::Change(_) => "changes",
                    WriteAction::Check(_) => "checks",
                    WriteAction::Warn(_) => "warns",
                };
                format!("{stage:?} {scope:?} {does}")
            }
            RuleHook::Created(_) => "Created".to_owned(),
            RuleHook::Changed(_) => "Changed".to_owned(),
            RuleHook::Marked(_) => "Marked".to_owned(),
            RuleHook::Removal(_) => "Removal".to_owned(),
            RuleHook::Deletion(_) => "Deletion".to_owned(),
            RuleHook::Request(_) => "Request".to_owned(),
            RuleHook::Removed(_) => "Removed".to_owned(),
            RuleHook::AllRemoved(_) => "AllRemoved".to_owned(),
        };
        assert!(!rule.why.is_empty(), "{}", rule.name);
        text.push_str(&format!("{when}: {}\n", rule.name));
    }
    expect![[r#"
        Received New checks: NodeRestriction
        Received New checks: NamespaceLifecycle
        Identified New fills: DefaultTolerationSeconds
        Defaulted New fills: ServiceAccount
        Defaulted New fills: Priority
        Defaulted Changed checks: NodeRestriction
        Defaulted All checks: Priority
        Defaulted New fills: DefaultStorageClass
        Valid Changed checks: PersistentVolumeClaimResize
        Defaulted New fills: LimitRanger
        Defaulted New fills: RuntimeClass
        Defaulted All changes: MutatingAdmissionPolicy, MutatingAdmissionWebhook
        Warned All warns: deadlocked budgets
        Warned All warns: misplaced ladders
        Warned All warns: overlapping ladders
        Named All fills: namespace labels
        Named All fills: CA bundle
        Named All fills: extension-apiserver-authentication
        Named All checks: RBAC escalation
        Named All fills: published trust bundle
        Valid All checks: ClusterTrustBundleAttest
        Valid Changed checks: CertificateApproval
        Valid Changed checks: CertificateSigning
        Final New checks: CertificateSubjectRestriction
        Valid New checks: proof of possession
        Valid All checks: LimitRanger
        Final All warns: PodSecurity
        Final New checks: RuntimeClass
        Valid All checks: APIService
        Valid All checks: policy parameters
        Final All warns: ValidatingAdmissionPolicy
        Final All warns: ValidatingAdmissionWebhook
        Created: namespace furniture
        Removal: NamespaceLifecycle
        Removal: Priority
        Removal: ServiceCIDR
        Deletion: ValidatingAdmissionPolicy
        Deletion: MutatingAdmissionWebhook, ValidatingAdmissionWebhook
        Request: ValidatingAdmissionPolicy
        Request: MutatingAdmissionWebhook, ValidatingAdmissionWebhook
        Removed: namespace furniture
        Removed: extension-apiserver-authentication
        Removed: published trust bundle
        Removed: Service kubernetes
        Removed: IPAddress
        Changed: ServiceCIDR
        Marked: ServiceCIDR
        Created: definition names
        Changed: definition names
        Removed: definition names
        Created: local APIServices
        Changed: local APIServices
        Removed: local APIServices
        Marked: definition objects
        AllRemoved: definition objects
    "#]]
    .assert_eq(&text);
}
