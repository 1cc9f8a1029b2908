//! What keeps a port of the machine from other processes while rules lead it to pods. Rules act
//! before sockets do: without this, a process would lose a port that it has, or get one on which
//! nothing arrives.

use std::io;
use std::net::{SocketAddr, SocketAddrV6, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

use rekindle_services::{Frontend, TransportProtocol};
use rustix::net::{
    AddressFamily, Shutdown, SocketFlags, SocketType, bind, listen, shutdown, socket_with, sockopt,
};

/// Connections that wait to be accepted, as many as the standard library lets.
const LISTEN_BACKLOG: i32 = 128;

/// A port that is held until this is dropped.
#[derive(Debug)]
pub(super) enum PortHold {
    #[expect(dead_code, reason = "it holds the port until it is dropped")]
    Tcp(TcpListener),
    #[expect(dead_code, reason = "it holds the port until it is dropped")]
    Udp(UdpSocket),
    /// Nothing: hardly a process of a machine speaks SCTP.
    Sctp,
}

/// Takes the port, at one address of the machine or at all.
///
/// # Errors
/// When another process has it, or the address is none of the machine.
pub(super) fn hold(port: Frontend) -> io::Result<PortHold> {
    let address = SocketAddr::new(port.address, port.port);
    match port.protocol {
        TransportProtocol::Tcp => hold_tcp(address).map(PortHold::Tcp),
        TransportProtocol::Udp => {
            let bound = match address {
                SocketAddr::V4(_) => UdpSocket::bind(address)?,
                SocketAddr::V6(address) => bind_ipv6(SocketType::DGRAM, address)?.into(),
            };
            Ok(PortHold::Udp(bound))
        }
        TransportProtocol::Sctp => Ok(PortHold::Sctp),
    }
}

/// A plain bind fails for a minute after a server has closed connections there (`TIME_WAIT`). So
/// this one listens for an instant, as a server would that starts again. Then it listens no more
/// and shares the port with no other socket.
fn hold_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = listen_at(address)?;
    shutdown(&socket, Shutdown::Both)?;
    sockopt::set_socket_reuseaddr(&socket, false)?;
    Ok(socket)
}

/// Listens at an address of the machine, in its family only.
pub(super) fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    match address {
        SocketAddr::V4(_) => TcpListener::bind(address),
        SocketAddr::V6(address) => {
            let socket = bind_ipv6(SocketType::STREAM, address)?;
            listen(&socket, LISTEN_BACKLOG)?;
            Ok(socket.into())
        }
    }
}

/// A socket for IPv6 only: another one has the port of IPv4.
fn bind_ipv6(kind: SocketType, address: SocketAddrV6) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::INET6, kind, SocketFlags::CLOEXEC, None)?;
    sockopt::set_ipv6_v6only(&socket, true)?;
    sockopt::set_socket_reuseaddr(&socket, kind == SocketType::STREAM)?;
    bind(&socket, &address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpStream;

    use rekindle_testkit::claims::loopback_address;
    use rekindle_types::IpFamily;

    use super::*;

    fn tcp(address: SocketAddr) -> Frontend {
        let protocol = TransportProtocol::Tcp;
        Frontend { address: address.ip(), protocol, port: address.port() }
    }

    #[test]
    fn a_port_on_which_a_server_has_just_ended_is_held_at_once_and_from_everyone() {
        let server = TcpListener::bind((loopback_address(21), 0)).unwrap();
        let address = server.local_addr().unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        // the end that closes first waits
        drop(server.accept().unwrap());
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        drop((client, server));

        let held = hold(tcp(address)).unwrap();
        let refused = TcpStream::connect(address).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused, "nothing listens");
        // as servers do, with SO_REUSEADDR
        let taken = TcpListener::bind(address).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        drop(held);
        TcpListener::bind(address).unwrap();
    }

    #[test]
    fn a_port_that_a_process_has_is_not_held() {
        let server = TcpListener::bind((loopback_address(22), 0)).unwrap();
        let taken = hold(tcp(server.local_addr().unwrap())).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        let elsewhere = hold(tcp("192.0.2.77:8080".parse().unwrap())).unwrap_err();
        assert_eq!(elsewhere.kind(), io::ErrorKind::AddrNotAvailable);
    }

    #[test]
    fn both_families_of_a_port_are_held_beside_each_other() {
        for protocol in [TransportProtocol::Tcp, TransportProtocol::Udp] {
            let free = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            let of = |family: IpFamily| Frontend { address: family.unspecified(), protocol, port };
            let _first = hold(of(IpFamily::V4)).unwrap();
            let _second = hold(of(IpFamily::V6)).unwrap();
            let taken = hold(of(IpFamily::V6)).unwrap_err();
            assert_eq!(taken.kind(), io::ErrorKind::AddrInUse, "{protocol}");
        }
    }
}
