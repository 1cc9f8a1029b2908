//! Ports of probes and hooks: a number, or the name of one of the container's ports.

use k8s_openapi::api::core::v1::Container;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Why there is no port.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PortError {
    #[error("container {container:?} has no port named {name:?}")]
    UnknownName { container: String, name: String },
    #[error("invalid port number: {0}")]
    OutOfRange(i64),
}

/// The number of a port. A name that no port has may be a number in quotes, as with the kubelet.
pub(crate) fn resolve(port: &IntOrString, container: &Container) -> Result<u16, PortError> {
    match port {
        IntOrString::Int(number) => in_range(i64::from(*number)),
        IntOrString::String(name) => {
            let ports = container.ports.iter().flatten();
            let named = ports.into_iter().find(|port| port.name.as_ref() == Some(name));
            let number = named.map(|port| i64::from(port.container_port));
            let number = number.or_else(|| name.parse().ok());
            let unknown =
                || PortError::UnknownName { container: container.name.clone(), name: name.clone() };
            in_range(number.ok_or_else(unknown)?)
        }
    }
}

/// 1 to 65535.
pub(crate) fn in_range(number: i64) -> Result<u16, PortError> {
    match u16::try_from(number) {
        Ok(port) if port > 0 => Ok(port),
        Ok(_) | Err(_) => Err(PortError::OutOfRange(number)),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ContainerPort;

    use super::*;

    #[test]
    fn ports_are_numbers_names_or_numbers_in_quotes() {
        let port = ContainerPort {
            name: Some("http".to_owned()),
            container_port: 8080,
            ..ContainerPort::default()
        };
        let container =
            Container { name: "web".to_owned(), ports: Some(vec![port]), ..Container::default() };
        let name = |text: &str| IntOrString::String(text.to_owned());
        let unknown =
            PortError::UnknownName { container: "web".to_owned(), name: "grpc".to_owned() };
        for (given, expected) in [
            (IntOrString::Int(80), Ok(80)),
            (name("http"), Ok(8080)),
            (name("9090"), Ok(9090)),
            (name("grpc"), Err(unknown)),
            (IntOrString::Int(0), Err(PortError::OutOfRange(0))),
            (IntOrString::Int(70_000), Err(PortError::OutOfRange(70_000))),
        ] {
            assert_eq!(resolve(&given, &container), expected, "{given:?}");
        }
    }
}
