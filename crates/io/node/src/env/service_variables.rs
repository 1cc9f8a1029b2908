//! The variables by which a container finds Services (upstream's `pkg/kubelet/envvars`): those of
//! the API, which every container gets, and those of the Services in the pod's namespace.

use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::Service;

/// Names and values.
pub(crate) type Variables = Vec<(String, String)>;

/// One port of a Service.
struct ServicePort<'a> {
    name: &'a str,
    protocol: &'a str,
    number: u16,
}

/// The variables for an API at this address: those of the Service `kubernetes`.
pub(super) fn api_variables(api: SocketAddr) -> Variables {
    let port = ServicePort { name: "https", protocol: "TCP", number: api.port() };
    variables("kubernetes", api.ip(), &[port])
}

/// Those of a Service. None for one without an address or ports: headless, or another name.
pub(crate) fn service_variables(service: &Service) -> Variables {
    let name = service.metadata.name.as_deref().unwrap_or_default();
    let spec = service.spec.as_ref();
    // `None` is no address
    let address = spec.and_then(|spec| spec.cluster_ip.as_ref()?.parse().ok());
    let Some(address) = address else { return Variables::new() };
    let ports = spec.and_then(|spec| spec.ports.as_ref()).into_iter().flatten();
    let ports = ports.filter_map(|port| {
        Some(ServicePort {
            name: port.name.as_deref().unwrap_or_default(),
            protocol: port.protocol.as_deref().unwrap_or("TCP"),
            number: u16::try_from(port.port).ok()?,
        })
    });
    variables(name, address, &ports.collect::<Vec<_>>())
}

fn variables(service: &str, address: IpAddr, ports: &[ServicePort<'_>]) -> Variables {
    let Some(first) = ports.first() else { return Variables::new() };
    let service = variable_name(service);
    let mut all = vec![
        (format!("{service}_SERVICE_HOST"), address.to_string()),
        (format!("{service}_SERVICE_PORT"), first.number.to_string()),
    ];
    for port in ports.iter().filter(|port| !port.name.is_empty()) {
        let name = format!("{service}_SERVICE_PORT_{}", variable_name(port.name));
        all.push((name, port.number.to_string()));
    }
    let url = |port: &ServicePort<'_>| {
        let protocol = port.protocol.to_ascii_lowercase();
        format!("{protocol}://{}", SocketAddr::new(address, port.number))
    };
    all.push((format!("{service}_PORT"), url(first)));
    for port in ports {
        let (protocol, number) = (port.protocol, port.number);
        let name = format!("{service}_PORT_{number}_{}", protocol.to_ascii_uppercase());
        all.push((name.clone(), url(port)));
        all.push((format!("{name}_PROTO"), protocol.to_ascii_lowercase()));
        all.push((format!("{name}_PORT"), number.to_string()));
        all.push((format!("{name}_ADDR"), address.to_string()));
    }
    all
}

fn variable_name(name: &str) -> String {
    name.to_ascii_uppercase().replace('-', "_")
}
