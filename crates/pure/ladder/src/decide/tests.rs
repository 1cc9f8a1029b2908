use rekindle_types::held::HeldPod;

use super::*;

fn named(name: &str, uid: &str) -> String {
    let mut pod = HeldPod::default();
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.uid = Some(uid.to_owned());
    restart_name(&ObservedPod::from_pod(&pod), Rung::Containers, u64::MAX)
}

#[test]
fn a_restarts_name_fits_and_tells_pods_and_decisions_apart() {
    let long = "a".repeat(199) + "-" + &"b".repeat(53);
    let name = named(&long, "uid");
    assert!(name.len() <= 253, "{}", name.len());
    assert!(name.starts_with(&("a".repeat(199) + "-containers-")), "{name}");
    assert_ne!(named("web-0", "uid-1"), named("web-0", "uid-2"));
    assert_eq!(named("web-0", "uid-1"), named("web-0", "uid-1"));
}
