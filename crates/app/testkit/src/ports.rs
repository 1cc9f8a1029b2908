//! Asking a server by its port, and finding the port that kubectl forwards to one.

use std::io::{self, Read, Write};
use std::net::TcpStream;

/// What the server at this port answers to a GET: head and body.
pub fn get(host: &str, port: u16) -> io::Result<String> {
    ask(TcpStream::connect((host, port))?)
}

/// The same on a connection that is there.
pub fn ask(client: TcpStream) -> io::Result<String> {
    request(client, "GET /")
}

/// What it answers to a POST without a body.
pub fn post(host: &str, port: u16, path: &str) -> io::Result<String> {
    request(TcpStream::connect((host, port))?, &format!("POST {path}"))
}

fn request(mut client: TcpStream, what: &str) -> io::Result<String> {
    let head = format!("{what} HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n\r\n");
    client.write_all(head.as_bytes())?;
    let mut answer = String::new();
    client.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Whether it answers that all is well.
pub fn answers(host: &str, port: u16) -> bool {
    get(host, port).is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

/// The port of 127.0.0.1 that leads to this one, as `kubectl port-forward` says in its lines: one
/// for each address of each port, in their order, the IPv4 ones first.
#[track_caller]
pub fn forwarded_port(lines: &mut impl Iterator<Item = io::Result<String>>, to: u16) -> u16 {
    let end = format!("-> {to}");
    lines
        .map(|line| line.expect("its output"))
        .find(|line| line.contains("127.0.0.1") && line.ends_with(&end))
        .and_then(|line| line.split(['>', ' ']).nth(2)?.rsplit(':').next()?.parse().ok())
        .expect("it forwards the port")
}
