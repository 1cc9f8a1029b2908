//! What keeps a port of the machine from other processes while rules lead it to pods. Rules act
//! before sockets do: without this, a process would lose a port that it has, or get one on which
//! nothing arrives.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

use rekindle_services::{Frontend, TransportProtocol};
use rustix::net::{Shutdown, shutdown, sockopt};

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
        TransportProtocol::Udp => UdpSocket::bind(address).map(PortHold::Udp),
        TransportProtocol::Sctp => Ok(PortHold::Sctp),
    }
}

/// A plain bind fails for a minute after a server has closed connections there (`TIME_WAIT`). So
/// this one listens for an instant, as a server would that starts again. Then it listens no more
/// and shares the port with no other socket.
fn hold_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpListener::bind(address)?;
    shutdown(&socket, Shutdown::Both)?;
    sockopt::set_socket_reuseaddr(&socket, false)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpStream;

    use rekindle_testkit::claims::loopback_address;

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
}
