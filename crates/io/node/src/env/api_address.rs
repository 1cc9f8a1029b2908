//! How in-cluster clients find the API: the variables that the kubelet makes of the Service
//! `kubernetes`, which every container gets, whatever `enableServiceLinks` says
//! (`pkg/kubelet/envvars`).

use std::net::SocketAddr;

/// The variables for an API at this address.
pub(super) fn api_variables(api: SocketAddr) -> [(String, String); 8] {
    let (host, port) = (api.ip().to_string(), api.port());
    let url = format!("tcp://{api}");
    let name = |rest: &str| format!("KUBERNETES_PORT_{port}_TCP{rest}");
    [
        ("KUBERNETES_SERVICE_HOST".to_owned(), host.clone()),
        ("KUBERNETES_SERVICE_PORT".to_owned(), port.to_string()),
        ("KUBERNETES_SERVICE_PORT_HTTPS".to_owned(), port.to_string()),
        ("KUBERNETES_PORT".to_owned(), url.clone()),
        (name(""), url),
        (name("_PROTO"), "tcp".to_owned()),
        (name("_PORT"), port.to_string()),
        (name("_ADDR"), host),
    ]
}
