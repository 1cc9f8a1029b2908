//! An API for tests of what becomes of its answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use serde_json::Value;

/// Gives these answers, one to a connection, and then is gone. An empty one is no answer: the
/// connection is closed.
pub(super) fn api(answers: Vec<String>) -> kube::Config {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).unwrap() > 2 {
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            reader.read_exact(&mut vec![0; length]).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let mut config = kube::Config::new(url.parse().unwrap());
    config.default_retry = false;
    // none are needed, and the machine's are not looked for
    config.root_cert = Some(Vec::new());
    config
}

/// An answer in full.
pub(super) fn answer(status: &str, body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}
