//! The scheduler: which of the nodes that fit a pod goes to.

use rekindle_controllers::{Kind, Object, ObjectId};
use serde_json::{Value, json};

use crate::build::pod;
use crate::world::{World, id};

fn asks(name: &str, requests: &Value, node: Option<&str>) -> Value {
    let mut pod = pod(name, json!({}));
    pod["spec"]["containers"][0]["resources"] = json!({"requests": requests});
    if let Some(node) = node {
        pod["spec"]["nodeName"] = json!(node);
    }
    pod
}

fn node_of(world: &World, id: &ObjectId) -> Option<String> {
    match &world.api.objects[id] {
        Object::Pod(pod) => pod.spec.as_ref().unwrap().node_name.clone(),
        other => panic!("{other:?}"),
    }
}

/// On both nodes as much stays free; on the second the pod uses what is left over.
#[test]
fn a_pod_goes_where_it_evens_out_the_use_of_cpu_and_memory() {
    // (what the pod asks for, where it goes)
    for (requests, expected) in [
        (json!({"cpu": "1"}), "b"),
        (json!({"memory": "1Gi"}), "a"),
        (json!({"cpu": "1", "memory": "1Gi"}), "a"),
        (json!({}), "a"),
    ] {
        let mut world = World::new();
        for name in ["a", "b"] {
            world.api.add_node(name, "4", "4Gi", "110");
        }
        world.create(asks("busy", &json!({"cpu": "2"}), Some("a")));
        world.create(asks("large", &json!({"memory": "2Gi"}), Some("b")));
        world.settle();
        let pod = world.create(asks("comes", &requests, None));
        world.settle();
        assert_eq!(node_of(&world, &pod).as_deref(), Some(expected), "{requests}");
    }
}

#[test]
fn a_pod_goes_where_its_image_is_if_that_is_large_enough_to_count() {
    let listed = |name: &str, mib: i64| json!([{"names": [name], "sizeBytes": mib << 20}]);
    // (images of node b, the pod's image, where it goes)
    for (images, image, expected) in [
        (listed("one:latest", 600), "one", "b"),
        (listed("one:latest", 600), "one:latest", "b"),
        (listed("one:latest", 600), "one:2", "a"),
        (listed("example.com:5000/one:latest", 600), "example.com:5000/one", "b"),
        (listed("one:latest", 45), "one", "a"),
    ] {
        let mut world = World::new();
        for name in ["a", "b"] {
            world.api.add_node(name, "4", "4Gi", "110");
        }
        world.api.change(&id(Kind::Node, "b"), |node| node["status"]["images"] = images.clone());
        world.settle();
        let mut pod = asks("comes", &json!({}), None);
        pod["spec"]["containers"][0]["image"] = json!(image);
        let pod = world.create(pod);
        world.settle();
        assert_eq!(node_of(&world, &pod).as_deref(), Some(expected), "{images} {image}");
    }
}
