//! Services of type LoadBalancer that the engine serves itself: their ports are opened on the
//! machine, as k3s and Docker Desktop do it.

use k8s_openapi::api::core::v1::Service;

/// `spec.loadBalancerClass` of a Service that names this implementation.
pub const CLASS: &str = "rekindle.dev/node";

/// The annotation that is the older form of `spec.loadBalancerSourceRanges`.
pub const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

/// Whether the engine serves it: a Service of type LoadBalancer of this class, or of none.
pub fn is_served_here(service: &Service) -> bool {
    let Some(spec) = &service.spec else { return false };
    let class = spec.load_balancer_class.as_deref();
    spec.type_.as_deref() == Some("LoadBalancer") && class.is_none_or(|class| class == CLASS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_balancer_without_a_class_or_of_ours_is_served() {
        for (spec, expected) in [
            (serde_json::json!({"type": "LoadBalancer"}), true),
            (serde_json::json!({"type": "LoadBalancer", "loadBalancerClass": CLASS}), true),
            (serde_json::json!({"type": "LoadBalancer", "loadBalancerClass": "a/b"}), false),
            (serde_json::json!({"type": "NodePort"}), false),
            (serde_json::json!({}), false),
        ] {
            let service = Service {
                spec: Some(serde_json::from_value(spec.clone()).unwrap()),
                ..Service::default()
            };
            assert_eq!(is_served_here(&service), expected, "{spec}");
        }
    }
}
