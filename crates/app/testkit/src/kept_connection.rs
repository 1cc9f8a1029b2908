//! A connection that is kept for more than one request, as the clients of most libraries do.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A client of one server with one connection at a time. It makes the next one when the server has
/// ended the last one in good order: by `Connection: close` in an answer, or between two requests.
/// Whatever else happens to a connection is an error.
pub(crate) struct KeptConnection {
    server: SocketAddr,
    patience: Duration,
    stream: Option<BufReader<TcpStream>>,
}

impl KeptConnection {
    pub(crate) fn new(server: SocketAddr, patience: Duration) -> Self {
        Self { server, patience, stream: None }
    }

    /// One request; the head and body of its answer.
    pub(crate) fn ask(&mut self) -> io::Result<String> {
        if let Some(stream) = &self.stream
            && is_ended(stream.get_ref())?
        {
            self.stream = None;
        }
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect_timeout(&self.server, self.patience)?;
                stream.set_read_timeout(Some(self.patience))?;
                stream.set_nodelay(true)?;
                BufReader::new(stream)
            }
        };
        stream.get_mut().write_all(b"GET / HTTP/1.1\r\nHost: pod\r\n\r\n")?;
        let (answer, is_last) = read_answer(&mut stream)?;
        if !is_last {
            self.stream = Some(stream);
        }
        Ok(answer)
    }
}

/// Whether the server has ended the connection since its last answer.
fn is_ended(stream: &TcpStream) -> io::Result<bool> {
    stream.set_nonblocking(true)?;
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false)?;
    match peeked {
        Ok(0) => Ok(true),
        Ok(_) => Err(io::Error::new(ErrorKind::InvalidData, "bytes that belong to no request")),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// An answer with a `Content-Length`, and whether it is the last one of its connection.
fn read_answer(stream: &mut impl BufRead) -> io::Result<(String, bool)> {
    let mut answer = String::new();
    let (mut body_bytes, mut is_last) = (0, false);
    loop {
        let begin = answer.len();
        if stream.read_line(&mut answer)? == 0 {
            return Err(io::Error::new(ErrorKind::UnexpectedEof, "ended without an answer"));
        }
        let line = answer[begin..].trim_end().to_ascii_lowercase();
        match line.split_once(": ") {
            Some(("content-length", bytes)) => {
                let invalid = |_| io::Error::new(ErrorKind::InvalidData, line.clone());
                body_bytes = bytes.parse().map_err(invalid)?;
            }
            Some(("connection", value)) => is_last = value == "close",
            _ if line.is_empty() => break,
            _ => {}
        }
    }
    let mut body = vec![0; body_bytes];
    stream.read_exact(&mut body)?;
    answer.push_str(&String::from_utf8_lossy(&body));
    Ok((answer, is_last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_where_it_says_and_may_be_the_last_one() {
        let two = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n\
            HTTP/1.1 200 OK\r\nConnection: close\r\ncontent-length: 2\r\n\r\nno";
        let mut stream = &two[..];
        let (first, is_last) = read_answer(&mut stream).unwrap();
        assert!(first.ends_with("\r\n\r\nok\n") && !is_last, "{first}");
        let (second, is_last) = read_answer(&mut stream).unwrap();
        assert!(second.ends_with("no") && is_last, "{second}");
        assert_eq!(read_answer(&mut stream).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        let cut_short = read_answer(&mut &b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\no"[..]);
        assert_eq!(cut_short.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
}
