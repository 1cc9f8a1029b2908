//! A restart never widens privilege (P4). That no container and no sandbox is asked for with other
//! rights than those of the first spec is looked at in the world, at each action of every test
//! here.

use k8s_openapi::api::core::v1::{
    Capabilities, Container, Pod, ResourceRequirements, SecurityContext,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use proptest::prelude::*;

use crate::happenings::{Happening, any_happening, happen, play};
use crate::rest::heal;
use crate::shapes::pods;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens, with the journal lost in between, too: as long as nobody asks for other
    /// resources, every start has the limits of the first.
    #[test]
    fn every_start_has_the_limits_of_the_first(
        pod in pods(),
        before in prop::collection::vec(any_happening(), 0..80),
        after in prop::collection::vec(any_happening(), 0..80),
    ) {
        let pod = bounded(pod.pod());
        let mut world = play(pod.clone(), &without_resizes(&before));
        heal(&mut world);
        happen(&mut world, &Happening::AgentCrashWithoutJournal);
        for happening in without_resizes(&after) {
            happen(&mut world, &happening);
        }
        heal(&mut world);
        let spec = pod.spec.as_ref().expect("a spec");
        for (key, in_force) in &world.in_force {
            let mut all = spec.init_containers.iter().flatten().chain(&spec.containers);
            let first = all.find(|container| container.name == key.name.0);
            let wanted = first.and_then(|container| container.resources.clone());
            prop_assert_eq!(in_force, &wanted.unwrap_or_default(), "{:?}", key);
        }
    }
}

/// Each container with limits and rights that no other has.
fn bounded(mut pod: Pod) -> Pod {
    let spec = pod.spec.as_mut().expect("a spec");
    let all = spec.init_containers.iter_mut().flatten().chain(&mut spec.containers);
    for (user, container) in (1_000..).zip(all) {
        bound(container, user);
    }
    pod
}

fn bound(container: &mut Container, user: i64) {
    let amounts = |cpu: String, memory: String| {
        Some([("cpu".to_owned(), Quantity(cpu)), ("memory".to_owned(), Quantity(memory))].into())
    };
    container.resources = Some(ResourceRequirements {
        requests: amounts(format!("{user}u"), format!("{user}k")),
        limits: amounts(format!("{user}m"), format!("{user}Mi")),
        ..ResourceRequirements::default()
    });
    container.security_context = Some(SecurityContext {
        run_as_user: Some(user),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
        ..SecurityContext::default()
    });
}

fn without_resizes(happenings: &[Happening]) -> Vec<Happening> {
    let resize = |happening: &&Happening| !matches!(happening, Happening::Resize(..));
    happenings.iter().filter(resize).cloned().collect()
}
