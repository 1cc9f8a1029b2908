//! A client that makes new connections all the time, and counts what becomes of them.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::ports::ask;

/// No connection is waited for longer.
const PATIENCE: Duration = Duration::from_secs(20);
/// Clients at the same time.
const CLIENTS: usize = 4;

/// Clients at work.
pub struct Load {
    is_over: Arc<AtomicBool>,
    answered: Arc<AnswerCount>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

/// How many connections were answered as they should be.
#[derive(Default)]
struct AnswerCount {
    count: Mutex<u64>,
    changed: Condvar,
}

impl AnswerCount {
    fn add_one(&self) {
        *self.count.lock().expect("no client panics with it") += 1;
        self.changed.notify_all();
    }

    fn get(&self) -> u64 {
        *self.count.lock().expect("no client panics with it")
    }

    fn wait_for_more(&self, more: u64) {
        let count = self.count.lock().expect("no client panics with it");
        let wanted = *count + more;
        let waited = self.changed.wait_timeout_while(count, PATIENCE, |count| *count < wanted);
        let is_late = waited.expect("no client panics with it").1.timed_out();
        assert!(!is_late, "the server does not answer");
    }
}

/// What became of the connections.
#[derive(Debug)]
pub struct LoadResult {
    /// How many were answered as they should be.
    pub answered: u64,
    /// What went wrong with others.
    pub lost: Vec<String>,
}

impl Load {
    /// Begins to ask the server at this address, each time on a new connection, as fast as it
    /// answers.
    pub fn start(host: &str, port: u16) -> Self {
        let address = SocketAddr::new(host.parse().expect("an address"), port);
        let (is_over, answered) = (Arc::new(AtomicBool::new(false)), Arc::<AnswerCount>::default());
        let client = || {
            let (is_over, answered) = (Arc::clone(&is_over), Arc::clone(&answered));
            std::thread::spawn(move || {
                let mut lost = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    match connect(address) {
                        Ok(answer) if answer.starts_with("HTTP/1.1 200") => {
                            answered.add_one();
                        }
                        Ok(answer) => lost.push(format!("answered {answer:?}")),
                        Err(error) => lost.push(error.to_string()),
                    }
                }
                lost
            })
        };
        let clients = std::iter::repeat_with(client).take(CLIENTS).collect();
        Self { is_over, answered, clients }
    }

    /// Waits until so many more were answered: the load is there.
    pub fn until_answered(&self, more: u64) {
        self.answered.wait_for_more(more);
    }

    /// Ends it.
    pub fn stop(self) -> LoadResult {
        self.is_over.store(true, Ordering::Relaxed);
        let lost = self.clients.into_iter().flat_map(|client| client.join().expect("a client"));
        LoadResult { lost: lost.collect(), answered: self.answered.get() }
    }
}

fn connect(address: SocketAddr) -> io::Result<String> {
    let client = TcpStream::connect_timeout(&address, PATIENCE)?;
    client.set_read_timeout(Some(PATIENCE))?;
    ask(client)
}
