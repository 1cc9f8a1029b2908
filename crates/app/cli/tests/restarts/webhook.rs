//! The webhook of an exhausted ladder: told to a real receiver, once, also over the end of the
//! engine.
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, Sender, channel};

use rekindle_testkit::{Engine, PATIENCE, TIMEOUT, text};
use serde_json::Value;

/// A receiver on loopback: answers the first requests as told, and every later one with 204.
pub struct Hook {
    pub url: String,
    requests: Receiver<Value>,
}

impl Hook {
    pub fn listen(answers: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hooks/secret-token", listener.local_addr().unwrap());
        let (sender, requests) = channel();
        std::thread::spawn(move || {
            let answers = answers.iter().chain(std::iter::repeat(&"204 No Content"));
            for (stream, answer) in listener.incoming().zip(answers) {
                if receive(stream.unwrap(), answer, &sender).is_err() {
                    return; // the test is over
                }
            }
        });
        Self { url, requests }
    }

    #[track_caller]
    pub fn next(&self) -> Value {
        self.requests.recv_timeout(PATIENCE).expect("a notice")
    }
}

/// Reads a request with its body, answers it, and hands the body on.
fn receive(
    mut stream: std::net::TcpStream,
    answer: &str,
    requests: &Sender<Value>,
) -> Result<(), ()> {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).unwrap() > 2 {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let head = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\nlocation: /elsewhere\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    requests.send(serde_json::from_slice(&body).unwrap()).map_err(drop)
}

const CRASHING: &str = "
apiVersion: v1
kind: Pod
metadata: {name: NAME, annotations: {rekindle.dev/ladder: 'Container:1'}}
spec:
  containers: [{name: app, image: localhost/host, command: [sh, -c, 'exit 4']}]
";

#[test]
fn an_exhausted_ladder_is_told_until_it_is_taken_and_then_never_again() {
    let hook = Hook::listen(&["302 Found", "503 Service Unavailable"]);
    let arguments = ["--exhausted-webhook", &hook.url, "--max-container-restart-period", "1s"];
    let mut engine = Engine::prepare();
    let log = engine.data_dir().join("test.log");
    engine.log_to(&log);
    engine.launch(&arguments);

    let refused =
        engine.try_kubectl(&["apply", "-f", "-"], &CRASHING.replace("Container:1", "Contaner:1"));
    let refused = text(&refused.stderr);
    let says = "metadata.annotations[rekindle.dev/ladder]: Invalid value: \"Contaner:1\": \"Contaner\" is no rung; write such as";
    assert!(refused.contains(says), "{refused}");

    engine.apply(&CRASHING.replace("NAME", "first"));
    let notices = [hook.next(), hook.next(), hook.next()];
    assert_eq!(notices[0], notices[1], "the redirect was not followed, and it was told again");
    assert_eq!(notices[1], notices[2], "nor was the error taken for an answer");
    let notice = &notices[0];
    assert_eq!((&notice["kind"], &notice["pod"]), (&"LadderExhausted".into(), &"first".into()));
    assert_eq!(notice["ladder"], "pod/first", "{notice:#}");
    let message = notice["message"].as_str().unwrap();
    assert!(
        message.contains("exited with 4") && message.contains("every rung was tried"),
        "{message}"
    );
    let at = notice["at"].as_str().unwrap();
    engine.wait_for("restartledger/first", ".status.exhaustionToldAt", at);

    engine.kill();
    let bad = engine.up_command(&["--exhausted-webhook", "ftp://example/"]).output().unwrap();
    assert!(
        text(&bad.stderr).contains("must begin with http:// or https://"),
        "{}",
        text(&bad.stderr)
    );
    engine.launch(&arguments);
    // the second pod's news comes next: the first one's was not told again
    engine.apply(&CRASHING.replace("NAME", "second"));
    assert_eq!(hook.next()["pod"], "second");
    engine.kubectl(&[
        "wait",
        "--for=jsonpath={.status.exhaustionToldAt}",
        "restartledger/second",
        TIMEOUT,
    ]);
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("it answered 302 Found: redirects are not followed"), "{log}");
    assert!(!log.contains("secret-token"), "{log}");
}
