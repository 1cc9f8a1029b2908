//! An API for tests of what becomes of its answers.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use serde_json::Value;

/// Gives these answers, one to a connection, and then is gone. An empty one is no answer: the
/// connection is closed.
pub(super) fn api(answers: Vec<String>) -> kube::Config {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port of the loopback");
    let address = listener.local_addr().expect("it listens");
    std::thread::spawn(move || give(&answers, &listener).expect("a client that asks"));
    let url = format!("http://{address}").parse().expect("an address is part of a URL");
    let mut config = kube::Config::new(url);
    config.default_retry = false;
    // none are needed, and the machine's are not looked for
    config.root_cert = Some(Vec::new());
    config
}

fn give(answers: &[String], listener: &TcpListener) -> io::Result<()> {
    for answer in answers {
        let (mut stream, _) = listener.accept()?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let (mut line, mut length) = (String::new(), 0);
        while reader.read_line(&mut line)? > 2 {
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a number of bytes");
            }
            line.clear();
        }
        reader.read_exact(&mut vec![0; length])?;
        stream.write_all(answer.as_bytes())?;
    }
    Ok(())
}

/// An answer in full.
pub(super) fn answer(status: &str, body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}
