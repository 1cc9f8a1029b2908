//! Services of a machine that can have no rules for them: an event warns of each that needs some.

use std::collections::BTreeSet;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{EventSource, Service};
use kube::{Api, Client};
use rekindle_services::ServiceIdentity;
use rekindle_types::reasons::event;
use rekindle_types::{EventSeverity, NamespacedName};

use super::service_events::reference_to;
use super::{COMPONENT, READER};
use crate::clock::Clock;
use crate::object_watch::{WatchNews, watch_objects};
use crate::pods::EventRecorder;

/// Follows Services until the watch ends, and says of each with an address that it leads nowhere,
/// and why.
pub async fn warn_of_unrouted_services(client: Client, clock: Clock, why: String) {
    let source = EventSource { component: Some(COMPONENT.to_owned()), host: None };
    let recorder = EventRecorder::start_for(client.clone(), source, clock);
    let mut services = watch_objects(Api::<Service>::all(client), READER);
    let mut unrouted = UnroutedServices::default();
    while let Some(news) = services.next().await {
        for service in unrouted.follow(news) {
            let message = format!(
                "The addresses of the Service lead nowhere: {why}; its name leads to its pods, at their own ports"
            );
            let about = reference_to(service);
            recorder.record(about, EventSeverity::Warning, event::FAILED_WRITE_RULES, message);
        }
    }
}

/// The UIDs of those that were warned of.
#[derive(Debug, Default)]
struct UnroutedServices(BTreeSet<String>);

impl UnroutedServices {
    /// Those that are to be warned of now.
    fn follow(&mut self, news: WatchNews<Service>) -> Vec<ServiceIdentity> {
        let seen = match news {
            WatchNews::All(all) => {
                let uids: BTreeSet<&str> = all.iter().map(uid).collect();
                self.0.retain(|warned| uids.contains(warned.as_str()));
                all
            }
            WatchNews::Changed(service) => vec![service],
            WatchNews::Gone(service) => {
                self.0.remove(uid(&service));
                Vec::new()
            }
        };
        let is_new = |service: &Service| self.0.insert(uid(service).to_owned());
        let new = seen.into_iter().filter(needs_rules).filter(is_new);
        let identity = |service: Service| ServiceIdentity {
            name: NamespacedName::from_meta(&service.metadata),
            uid: uid(&service).to_owned(),
        };
        new.map(identity).collect()
    }
}

/// Whether it has an address of its own.
fn needs_rules(service: &Service) -> bool {
    let address = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref());
    address.is_some_and(|address| !address.is_empty() && address != "None")
}

fn uid(service: &Service) -> &str {
    service.metadata.uid.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(name: &str, uid: &str, cluster_ip: Option<&str>) -> Service {
        let metadata = json!({ "namespace": "shop", "name": name, "uid": uid });
        let spec = json!({ "clusterIP": cluster_ip });
        serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap()
    }

    #[test]
    fn each_service_with_an_address_is_warned_of_once() {
        let mut unrouted = UnroutedServices::default();
        let mut warned = |news| {
            let found = unrouted.follow(news).into_iter();
            found.map(|service| service.uid).collect::<Vec<_>>()
        };
        let web = || service("web", "u1", Some("10.96.0.7"));
        let headless = service("headless", "u2", Some("None"));
        let all = vec![web(), headless.clone(), service("elsewhere", "u3", None)];
        assert_eq!(warned(WatchNews::All(all.clone())), ["u1"]);
        assert!(warned(WatchNews::All(all)).is_empty(), "the watch began anew");
        assert!(warned(WatchNews::Changed(web())).is_empty());
        // a type that changes gives an address
        assert_eq!(
            warned(WatchNews::Changed(service("elsewhere", "u3", Some("10.96.0.8")))),
            ["u3"]
        );
        assert!(warned(WatchNews::Gone(web())).is_empty());
        assert_eq!(warned(WatchNews::Changed(service("web", "u4", Some("10.96.0.7")))), ["u4"]);
        assert!(warned(WatchNews::Changed(headless)).is_empty());
    }
}
