//! Clients that ask a server all the time, on new connections or on kept ones, and count what
//! becomes of their requests.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::kept_connection::KeptConnection;
use crate::ports::ask;

/// No connection is waited for longer.
const PATIENCE: Duration = Duration::from_secs(20);
/// Clients at the same time.
const CLIENTS: usize = 4;
/// From one connection of a client to its next. Many more would use up the ports of the machine in
/// a minute, and what one client has with a pod both directly and through a Service shares them.
const PACE: Duration = Duration::from_millis(10);
/// From one request to the next of a client that keeps its connection: 200 of them are 2,000
/// requests a second.
const PACE_KEPT: Duration = Duration::from_millis(100);

/// Clients at work.
pub struct Load {
    answered: Arc<AnswerCount>,
    /// Each goes on as long as its sender is there.
    clients: Vec<(Sender<()>, JoinHandle<ClientResult>)>,
}

/// What one client has seen.
#[derive(Default)]
struct ClientResult {
    lost: Vec<String>,
    slowest: Duration,
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
    /// From the beginning of a request, or of the connection that it needs, to the end of its
    /// answer, at most.
    pub slowest: Duration,
}

impl Load {
    /// Begins to ask the server at this address, each time on a new connection: up to 400 a second.
    pub fn start(host: &str, port: u16) -> Self {
        Self::start_with(host, port, PACE)
    }

    /// The same with at most so many a second.
    pub fn start_at(host: &str, port: u16, per_second: u32) -> Self {
        Self::start_with(host, port, Duration::from_secs(CLIENTS as u64) / per_second)
    }

    /// The same as fast as it answers, for a few seconds.
    pub fn start_at_full_speed(host: &str, port: u16) -> Self {
        Self::start_with(host, port, Duration::ZERO)
    }

    fn start_with(host: &str, port: u16, pace: Duration) -> Self {
        let server = server(host, port);
        Self::start_clients(CLIENTS, pace, || move || connect(server))
    }

    /// Begins to ask the server at this address from so many clients, each on a connection that it
    /// keeps: 10 requests a second from each.
    pub fn start_kept(host: &str, port: u16, clients: usize) -> Self {
        Self::start_kept_with(host, port, clients, PACE_KEPT)
    }

    /// The same as fast as it answers.
    pub fn start_kept_at_full_speed(host: &str, port: u16) -> Self {
        Self::start_kept_with(host, port, CLIENTS, Duration::ZERO)
    }

    fn start_kept_with(host: &str, port: u16, clients: usize, pace: Duration) -> Self {
        let server = server(host, port);
        Self::start_clients(clients, pace, || {
            let mut connection = KeptConnection::new(server, PATIENCE);
            move || connection.ask()
        })
    }

    fn start_clients<A>(clients: usize, pace: Duration, client: impl Fn() -> A) -> Self
    where
        A: FnMut() -> io::Result<String> + Send + 'static,
    {
        let answered = Arc::<AnswerCount>::default();
        let start = |mut ask: A| {
            let answered = Arc::clone(&answered);
            let (load, goes_on) = mpsc::channel();
            let client = std::thread::spawn(move || {
                let mut result = ClientResult::default();
                let mut pause = pace;
                while goes_on.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                    let begun = Instant::now();
                    match ask() {
                        Ok(answer) if answer.starts_with("HTTP/1.1 200") => {
                            result.slowest = result.slowest.max(begun.elapsed());
                            answered.add_one();
                        }
                        Ok(answer) => result.lost.push(format!("answered {answer:?}")),
                        Err(error) => result.lost.push(error.to_string()),
                    }
                    pause = pace.saturating_sub(begun.elapsed());
                }
                result
            });
            (load, client)
        };
        let clients = std::iter::repeat_with(|| start(client())).take(clients).collect();
        Self { answered, clients }
    }

    /// Waits until so many more were answered: the load is there.
    pub fn until_answered(&self, more: u64) {
        self.answered.wait_for_more(more);
    }

    /// Ends it.
    pub fn stop(self) -> LoadResult {
        let (loads, clients): (Vec<_>, Vec<_>) = self.clients.into_iter().unzip();
        drop(loads);
        let results = clients.into_iter().map(|client| client.join().expect("a client"));
        let results: Vec<ClientResult> = results.collect();
        LoadResult {
            answered: self.answered.get(),
            slowest: results.iter().map(|result| result.slowest).max().unwrap_or_default(),
            lost: results.into_iter().flat_map(|result| result.lost).collect(),
        }
    }
}

fn server(host: &str, port: u16) -> SocketAddr {
    SocketAddr::new(host.parse().expect("an address"), port)
}

fn connect(address: SocketAddr) -> io::Result<String> {
    let client = TcpStream::connect_timeout(&address, PATIENCE)?;
    client.set_read_timeout(Some(PATIENCE))?;
    ask(client)
}
