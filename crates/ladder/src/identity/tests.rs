use super::*;

fn pod(owner: Option<(&str, &str)>) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.name = Some("web-0".to_owned());
    pod.metadata.uid = Some("uid-1".to_owned());
    pod.metadata.owner_references = owner.map(|(kind, uid)| {
        vec![OwnerReference {
            api_version: "apps/v1".to_owned(),
            kind: kind.to_owned(),
            name: "web".to_owned(),
            uid: uid.to_owned(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }]
    });
    pod
}

#[test]
fn a_ledger_goes_with_what_cannot_come_back() {
    for (owner, expected) in [
        (None, None),
        (Some(("StatefulSet", "sts-uid")), Some(("StatefulSet", "sts-uid"))),
        (Some(("ReplicaSet", "rs-uid")), Some(("Pod", "uid-1"))),
        (Some(("Job", "job-uid")), Some(("Pod", "uid-1"))),
    ] {
        let identity = identity(&pod(owner));
        assert_eq!(identity.ledger_name, "web-0");
        let found = identity.owner.as_ref().map(|o| (o.kind.as_str(), o.uid.as_str()));
        assert_eq!(found, expected, "{owner:?}");
        assert_eq!(identity.owner.and_then(|owner| owner.controller), None);
    }
}
