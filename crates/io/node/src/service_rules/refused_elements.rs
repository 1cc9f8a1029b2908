//! Elements that the kernel refuses. One of them must not keep all other rules from being written:
//! its frontend is left out, and an event names its Service or pod.

use rekindle_net::rules::RuleError;
use rekindle_pod::PodEvent;
use rekindle_services::{RuleElement, RuleElements, ServiceRouter};
use rekindle_types::reasons::event;
use rekindle_types::{EventSeverity, causes};

use super::host_ports::HostPorts;
use super::service_events::reference_to;
use crate::pods::EventRecorder;

/// So many are left out at a time. Where the kernel refuses more, it is not the elements.
const LEFT_OUT_AT_ONCE_MAX: usize = 16;
const HOST_PORT_FIELD: &str = "spec.containers[*].ports[*].hostPort";

/// An element that the rules do without.
#[derive(Debug)]
pub(super) struct LeftOutElement {
    element: RuleElement,
    why: String,
}

/// Writes all elements of the router but those that are refused. Answers what the last write does.
///
/// # Errors
/// When the rules cannot be written for another reason, or too many are refused at once: those are
/// left out the next time.
pub(super) async fn write_all_but_refused<T, W: Future<Output = Result<T, RuleError>>>(
    router: &mut ServiceRouter,
    left_out: &mut Vec<LeftOutElement>,
    mut write: impl FnMut(RuleElements) -> W,
) -> Result<T, RuleError> {
    for _ in 0..LEFT_OUT_AT_ONCE_MAX {
        let error = match write(router.elements()).await {
            Ok(written) => return Ok(written),
            Err(error) => error,
        };
        let Some(element) = error.refused_element().copied() else { return Err(error) };
        if router.leave_out(&element).is_none() {
            return Err(error);
        }
        left_out.push(LeftOutElement { element, why: causes(&error) });
    }
    write(router.elements()).await
}

impl LeftOutElement {
    /// Records an event about the Service or pod that it belongs to.
    pub(super) fn report(
        self,
        recorder: &EventRecorder,
        router: &ServiceRouter,
        host_ports: &HostPorts,
    ) {
        let Self { element, why } = self;
        let field = router.field_of(&element);
        tracing::warn!(?element, why, field, "failed to write a rule that the kernel refuses");
        let Some(frontend) = element.frontend() else { return };
        let message = |field: &str| {
            format!(
                "The kernel refuses a rule for {field}: {why}; connections to {frontend} lead nowhere until that changes, all others work"
            )
        };
        let (severity, reason) = (EventSeverity::Warning, event::FAILED_WRITE_RULES);
        match (host_ports.pod_with(frontend), router.service_of(frontend)) {
            (Some(pod), _) => {
                let message = message(HOST_PORT_FIELD);
                let event = PodEvent { severity, reason, message, field_path: None };
                recorder.pod_event(pod, event);
            }
            (None, Some(service)) => {
                let message = message(field.unwrap_or("spec.ports"));
                recorder.record(reference_to(service), severity, reason, message);
            }
            (None, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::io;

    use k8s_openapi::api::core::v1::Service;
    use rekindle_types::NamespacedName;
    use serde_json::json;

    use super::*;

    fn service(last: usize) -> Service {
        serde_json::from_value(json!({
            "metadata": { "namespace": "shop", "name": format!("s{last}"), "uid": "u" },
            "spec": { "type": "ClusterIP", "clusterIP": format!("10.96.0.{last}"), "ports": [{ "port": 80 }] },
        }))
        .unwrap()
    }

    fn router(services: usize) -> ServiceRouter {
        let mut router = ServiceRouter::default();
        for last in 1..=services {
            let name = NamespacedName::new("shop", format!("s{last}"));
            router.set_service(name, Some(&service(last)));
        }
        router
    }

    fn refusal(element: RuleElement, source: io::Error) -> RuleError {
        let (table, element) = ("rekindle-test".to_owned(), Box::new(element));
        RuleError::ElementRefused { operation: "add", element, table, source }
    }

    /// A kernel that refuses what is about these addresses.
    fn check(elements: &RuleElements, is_refused: impl Fn(u8) -> bool) -> Result<(), RuleError> {
        let last = |element: &RuleElement| match element.frontend()?.address {
            std::net::IpAddr::V4(address) => Some(address.octets()[3]),
            std::net::IpAddr::V6(_) => None,
        };
        match elements.iter().find(|element| last(element).is_some_and(&is_refused)) {
            Some(element) => Err(refusal(*element, io::ErrorKind::InvalidInput.into())),
            None => Ok(()),
        }
    }

    #[tokio::test]
    async fn what_the_kernel_refuses_is_left_out_and_all_else_is_written() {
        let (mut router, mut left_out) = (router(20), Vec::new());
        let mut written = RuleElements::new();
        let write = |elements| {
            let answer = check(&elements, |last| last == 7 || last == 9);
            written = elements;
            ready(answer)
        };
        write_all_but_refused(&mut router, &mut left_out, write).await.unwrap();
        assert_eq!((written.len(), left_out.len()), (18, 2));
        assert_eq!(router.field_of(&left_out[0].element), Some("spec.clusterIPs"));
        assert!(left_out[0].why.starts_with("add rejection of 10.96.0.7:80/TCP"), "{left_out:?}");
    }

    #[tokio::test]
    async fn a_kernel_that_refuses_everything_is_asked_a_few_times_only() {
        let (mut router, mut left_out) = (router(40), Vec::new());
        let mut asked = 0;
        let write = |elements| {
            asked += 1;
            ready(check(&elements, |_| true))
        };
        write_all_but_refused(&mut router, &mut left_out, write).await.unwrap_err();
        assert_eq!((asked, left_out.len()), (17, 16));
    }

    #[tokio::test]
    async fn want_of_memory_is_nobodys_fault() {
        let (mut router, mut left_out) = (router(2), Vec::new());
        let element = *router.elements().first().unwrap();
        let write = |_| ready(Err::<(), _>(refusal(element, io::ErrorKind::OutOfMemory.into())));
        write_all_but_refused(&mut router, &mut left_out, write).await.unwrap_err();
        assert!(left_out.is_empty());
    }
}
