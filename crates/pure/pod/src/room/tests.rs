use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use proptest::prelude::*;
use rekindle_types::resources::ResourceList;

use super::*;

fn amounts(cpu_millis: i64, memory: i64) -> Amounts {
    let list = ResourceList::from([
        ("cpu".to_owned(), Quantity(format!("{cpu_millis}m"))),
        ("memory".to_owned(), Quantity(memory.to_string())),
    ]);
    Amounts::read(Some(&list))
}

fn uid(name: &str) -> PodUid {
    PodUid(name.to_owned())
}

fn rank(priority: i32, class: QosRank) -> Rank {
    Rank { priority, class }
}

fn ask(ticket: u64, held: Amounts, wanted: Amounts) -> ResourceRequest {
    ResourceRequest { ticket, held, wanted }
}

/// `pod ticket decision` of each notice.
fn shown(notices: Vec<ResourceNotice>) -> Vec<String> {
    let show = |ResourceNotice { pod, ticket, decision }: ResourceNotice| match decision {
        ResourceDecision::Granted => format!("{pod} {ticket} granted"),
        ResourceDecision::Deferred { message } => format!("{pod} {ticket} deferred: {message}"),
        ResourceDecision::Infeasible { message } => format!("{pod} {ticket} infeasible: {message}"),
    };
    notices.into_iter().map(show).collect()
}

/// A node of 2 CPUs and 4000 bytes, on which `a`, `b` and `c` have 500m and 1000 bytes each.
fn room() -> NodeAllocations {
    let mut room = NodeAllocations::new(amounts(2000, 4000));
    assert!(room.listed().is_empty());
    for name in ["a", "b", "c"] {
        let notices = room.hold(uid(name), amounts(500, 1000), Rank::default());
        assert!(notices.is_empty());
    }
    room
}

fn request(
    room: &mut NodeAllocations,
    pod: &str,
    ticket: u64,
    cpu: i64,
    memory: i64,
) -> Vec<String> {
    request_as(room, pod, ticket, cpu, memory, Rank::default())
}

fn request_as(
    room: &mut NodeAllocations,
    pod: &str,
    ticket: u64,
    cpu: i64,
    memory: i64,
    rank: Rank,
) -> Vec<String> {
    let request = ask(ticket, amounts(500, 1000), amounts(cpu, memory));
    shown(room.request(&uid(pod), request, rank))
}

#[test]
fn what_fits_is_granted_and_what_never_will_is_refused() {
    let mut room = room();
    assert_eq!(request(&mut room, "a", 1, 1000, 2000), ["a 1 granted"]);
    assert_eq!(
        request(&mut room, "b", 2, 2001, 1000),
        ["b 2 infeasible: Node didn't have enough capacity: cpu, requested: 2001, capacity: 2000"]
    );
    assert_eq!(
        request(&mut room, "b", 3, 2001, 4001),
        [
            "b 3 infeasible: Node didn't have enough capacity: memory, requested: 4001, capacity: 4000"
        ]
    );
    assert_eq!(
        request(&mut room, "b", 4, 501, 1000),
        [
            "b 4 deferred: Node didn't have enough resource: cpu, requested: 501, used: 1500, capacity: 2000"
        ]
    );
    assert_eq!(request(&mut room, "b", 5, 500, 1000), ["b 5 granted"]);
}

#[test]
fn deferred_requests_are_granted_when_room_appears_by_priority_class_and_age() {
    let mut room = room();
    let important = rank(10, QosRank::Other);
    let guaranteed = rank(0, QosRank::Guaranteed);
    assert_eq!(request(&mut room, "a", 1, 1001, 1000).len(), 1);
    assert_eq!(request_as(&mut room, "b", 2, 1001, 1000, guaranteed).len(), 1);
    assert_eq!(request_as(&mut room, "c", 3, 1001, 1000, important).len(), 1);
    // one more that fits in any case keeps no pod from what is free
    assert!(room.hold(uid("d"), amounts(0, 0), Rank::default()).is_empty());
    assert_eq!(shown(room.release(&uid("d"))), Vec::<String>::new());
    // 500m are free: nothing fits; then 1000m are
    room.hold(uid("a"), amounts(500, 1000), Rank::default());
    let told = shown(room.release(&uid("a")));
    assert_eq!(told[0], "c 3 granted");
    assert!(told[1].starts_with("b 2 deferred: "), "{told:?}");
    assert_eq!(shown(room.release(&uid("c"))), ["b 2 granted"]);
}

#[test]
fn a_request_that_asks_for_no_more_goes_first_and_makes_room_for_others() {
    let mut room = room();
    assert!(request(&mut room, "a", 1, 1001, 1000)[0].starts_with("a 1 deferred"));
    assert_eq!(request(&mut room, "b", 2, 400, 1000), ["b 2 granted", "a 1 granted"]);
}

#[test]
fn nothing_is_decided_before_all_pods_are_known() {
    let mut room = NodeAllocations::new(amounts(1000, 1000));
    room.expect(uid("a"));
    room.expect(uid("b"));
    room.hold(uid("a"), amounts(400, 0), Rank::default());
    let wanted = ask(1, amounts(400, 0), amounts(600, 0));
    assert!(room.request(&uid("a"), wanted, Rank::default()).is_empty());
    assert!(room.listed().is_empty(), "b has not said what it has");
    let told = shown(room.hold(uid("b"), amounts(500, 0), Rank::default()));
    assert!(told[0].starts_with("a 1 deferred"), "{told:?}");
    assert_eq!(shown(room.release(&uid("b"))), ["a 1 granted"]);
}

#[test]
fn a_pod_that_was_told_is_not_told_the_same_again() {
    let mut room = room();
    assert_eq!(request(&mut room, "a", 1, 1001, 1000).len(), 1);
    assert!(room.hold(uid("d"), amounts(0, 0), Rank::default()).is_empty());
}

proptest! {
    /// Pods come when the scheduler sees room for them, ask for this and that, and go.
    #[test]
    fn what_was_granted_never_exceeds_what_the_node_has(
        steps in prop::collection::vec((0usize..6, 0i64..2500, 0i64..5000, 0u8..8), 1..60),
    ) {
        let mut room = NodeAllocations::new(amounts(2000, 4000));
        room.listed();
        let mut held: BTreeMap<PodUid, Amounts> = BTreeMap::new();
        let mut wanted: BTreeMap<PodUid, (u64, Amounts)> = BTreeMap::new();
        for (ticket, (pod, cpu, memory, step)) in steps.into_iter().enumerate() {
            let (pod, ticket) = (uid(&format!("p{pod}")), ticket as u64);
            let notices = match (held.get(&pod).cloned(), step) {
                (None, _) => {
                    let sum = room.granted();
                    let new = amounts(cpu / 4, memory / 4);
                    let fits = RESOURCES.iter().zip([4000, 2000]).all(|(name, most)| {
                        number(&sum, name) + number(&new, name) <= most
                    });
                    if !fits {
                        continue;
                    }
                    held.insert(pod.clone(), new.clone());
                    room.hold(pod, new, Rank::default())
                }
                (Some(_), 0) => {
                    held.remove(&pod);
                    wanted.remove(&pod);
                    room.release(&pod)
                }
                (Some(before), _) => {
                    let asked = amounts(cpu, memory);
                    wanted.insert(pod.clone(), (ticket, asked.clone()));
                    room.request(&pod, ask(ticket, before, asked), rank(i32::from(step), QosRank::Other))
                }
            };
            for ResourceNotice { pod, ticket, decision } in notices {
                let (asked, amounts) = wanted.get(&pod).cloned().expect("it asked");
                prop_assert_eq!(asked, ticket, "a word on an earlier request");
                if decision == ResourceDecision::Granted {
                    held.insert(pod, amounts);
                }
            }
            let sum = room.granted();
            prop_assert!(number(&sum, "cpu") <= 2000 && number(&sum, "memory") <= 4000, "{:?}", sum);
            let mut told = Amounts::default();
            held.values().for_each(|held| told.add(held));
            for name in RESOURCES {
                prop_assert_eq!(number(&told, name), number(&sum, name), "the pods know what they have");
            }
        }
    }
}
