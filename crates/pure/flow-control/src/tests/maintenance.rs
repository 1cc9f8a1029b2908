//! What the server does about its own objects, and about schemas without a level.

use k8s_openapi::api::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};
use rekindle_types::Tick;

use crate::{AUTO_UPDATE, MaintainedObject, ObjectUpkeep, dangling_status, maintain};

fn stored<K: MaintainedObject>() -> Vec<K> {
    let mut all = [K::mandatory(), K::suggested()].concat();
    for object in &mut all {
        object.metadata_mut().generation = Some(1);
    }
    all
}

fn find<'a, K: MaintainedObject>(all: &'a mut [K], name: &str) -> &'a mut K {
    all.iter_mut().find(|object| object.metadata().name.as_deref() == Some(name)).unwrap()
}

fn annotate(object: &mut impl MaintainedObject, value: Option<&str>) {
    let annotations = object.metadata_mut().annotations.get_or_insert_default();
    match value {
        Some(value) => annotations.insert(AUTO_UPDATE.to_owned(), value.to_owned()),
        None => annotations.remove(AUTO_UPDATE),
    };
}

fn names<K: MaintainedObject>(upkeep: Vec<ObjectUpkeep<K>>) -> Vec<(bool, String)> {
    let name = |object: &K| object.metadata().name.clone().unwrap();
    upkeep
        .iter()
        .map(|one| match one {
            ObjectUpkeep::Create(object) => (true, name(object)),
            ObjectUpkeep::Update(object) => (false, name(object)),
        })
        .collect()
}

#[test]
fn what_lacks_is_created_and_what_is_there_stays() {
    assert_eq!(maintain::<FlowSchema>(&[]).len(), 13);
    assert_eq!(maintain::<PriorityLevelConfiguration>(&[]).len(), 8);
    assert_eq!(maintain(&stored::<FlowSchema>()), []);
    assert_eq!(maintain(&stored::<PriorityLevelConfiguration>()), []);
}

#[test]
fn a_changed_spec_is_restored_unless_its_owner_keeps_it() {
    for (annotation, generation, restored, marked) in [
        (Some("true"), 2, true, "true"),
        (Some("false"), 2, false, "false"),
        (None, 2, false, "false"),
        (None, 1, true, "true"),
        (Some("odd"), 2, false, "false"),
    ] {
        let mut all = stored::<FlowSchema>();
        let object = find(&mut all, "service-accounts");
        object.spec.matching_precedence = Some(77);
        object.metadata.generation = Some(generation);
        annotate(object, annotation);
        let mut kept = object.clone();
        for one in maintain(&all) {
            let ObjectUpkeep::Update(object) = one else { panic!("it is there") };
            kept = object;
        }
        let (precedence, more) = if restored { (9000, 1) } else { (77, 0) };
        assert_eq!(kept.metadata.generation, Some(generation + more), "{annotation:?}");
        assert_eq!(kept.spec.matching_precedence, Some(precedence), "{annotation:?} {generation}");
        let says = kept.metadata.annotations.unwrap()[AUTO_UPDATE].clone();
        assert_eq!(says, marked, "{annotation:?} {generation}");
    }
}

#[test]
fn mandatory_objects_are_restored_whatever_their_owner_says() {
    let mut all = stored::<FlowSchema>();
    let catch_all = find(&mut all, "catch-all");
    catch_all.spec.matching_precedence = Some(3);
    annotate(catch_all, Some("false"));
    assert_eq!(names(maintain(&all)), [(false, "catch-all".to_owned())]);
    let mut levels = stored::<PriorityLevelConfiguration>();
    let exempt = find(&mut levels, "exempt");
    exempt.spec.exempt.as_mut().unwrap().nominal_concurrency_shares = Some(10);
    annotate(exempt, Some("false"));
    assert_eq!(names(maintain(&levels)), [], "what exempt lends is its owner's to say");
}

#[test]
fn a_schema_says_whether_its_level_is_there() {
    let now = Tick::from_secs(100);
    let mut schema = FlowSchema::suggested().remove(0);
    let shown = |schema: &FlowSchema| {
        let condition = &schema.status.as_ref().unwrap().conditions.as_ref().unwrap()[0];
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        (text(&condition.status), text(&condition.reason), condition.last_transition_time.clone())
    };
    schema.status = dangling_status(&schema, true, now);
    assert_eq!(shown(&schema), ("False".to_owned(), "Found".to_owned(), Some(now.to_time())));
    assert_eq!(dangling_status(&schema, true, Tick::from_secs(200)), None, "nothing has changed");
    let later = Tick::from_secs(300);
    schema.status = dangling_status(&schema, false, later);
    assert_eq!(shown(&schema), ("True".to_owned(), "NotFound".to_owned(), Some(later.to_time())));
}
