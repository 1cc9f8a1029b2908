//! `demo server`: an HTTP server with the three health endpoints and a slow start. On SIGTERM it
//! drains, dies in the middle of its requests, or goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::{get, post};
use tokio::sync::watch;

use crate::connections::serve;
use crate::{DemoError, EXIT_CODE_TERMINATED, Termination, duration};

/// Serve HTTP on /, /startz, /readyz and /healthz; drain on SIGTERM.
#[derive(Clone, Debug, clap::Args)]
pub struct ServerDemo {
    /// The address that it listens at; at `::` it takes connections of IPv4 and IPv6
    #[arg(long, default_value = "0.0.0.0")]
    address: std::net::IpAddr,
    /// The port
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// How long it does not listen after the start, as an app that loads much
    #[arg(long, value_parser = duration, default_value = "0s")]
    listen_delay: Duration,
    /// How long /startz and /readyz answer 503 once it listens
    #[arg(long, value_parser = duration, default_value = "0s")]
    start_delay: Duration,
    /// After how long /healthz begins to answer 503; POST /unhealthy does the same at once
    #[arg(long, value_parser = duration)]
    unhealthy_after: Option<Duration>,
    /// How long / takes to answer
    #[arg(long, value_parser = duration, default_value = "0s")]
    answer_delay: Duration,
    /// What a SIGTERM or SIGINT does
    #[arg(long, value_enum, default_value_t = ServerShutdown::Drain)]
    on_term: ServerShutdown,
    /// With --on-term drain: how long it goes on to listen. /readyz says 503 then, and each answer
    /// ends its connection
    #[arg(long, value_parser = duration, default_value = "0s")]
    drain: Duration,
    /// What / answers
    #[arg(long, default_value = "ok")]
    text: String,
}

/// What the server does with its connections when it is asked to end.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ServerShutdown {
    /// Answer what was asked, then end.
    Drain,
    /// End at once with 143, as a program that leaves signals to the kernel: requests are lost.
    Die,
    /// Go on: only SIGKILL ends it.
    Ignore,
}

/// What the endpoints say.
struct EndpointHealth {
    started: AtomicBool,
    ready: AtomicBool,
    healthy: AtomicBool,
    /// Answers end their connections, so that clients go elsewhere.
    draining: AtomicBool,
}

impl ServerDemo {
    pub(crate) async fn run(self) -> Result<u8, DemoError> {
        let mut termination = Termination::listen()?;
        if !self.listen_delay.is_zero() {
            println!("loading for {}", humantime::format_duration(self.listen_delay));
        }
        tokio::select! {
            () = tokio::time::sleep(self.listen_delay) => {}
            name = termination.next(), if !matches!(self.on_term, ServerShutdown::Ignore) => {
                println!("got {name} before it listened");
                return Ok(EXIT_CODE_TERMINATED);
            }
        }
        let listener = tokio::net::TcpListener::bind((self.address, self.port))
            .await
            .map_err(|source| DemoError::Listen { port: self.port, source })?;
        println!("listening on port {}", self.port);

        let health = Arc::new(EndpointHealth {
            started: AtomicBool::new(false),
            ready: AtomicBool::new(false),
            healthy: AtomicBool::new(true),
            draining: AtomicBool::new(false),
        });
        tokio::spawn(change_health(Arc::clone(&health), self.start_delay, self.unhealthy_after));
        let router = router(&health, self.text, self.answer_delay);
        let (stop, stopped) = watch::channel(false);
        let serve = serve(listener, router, stopped);
        match self.on_term {
            ServerShutdown::Drain => {
                tokio::spawn(async move {
                    drain(termination, health, self.drain).await;
                    stop.send_replace(true);
                });
                serve.await;
                println!("drained");
                Ok(0)
            }
            ServerShutdown::Die => {
                tokio::select! {
                    () = serve => {}
                    name = termination.next() => println!("got {name}, dying"),
                }
                Ok(EXIT_CODE_TERMINATED)
            }
            ServerShutdown::Ignore => {
                tokio::spawn(async move {
                    loop {
                        println!("ignored {}", termination.next().await);
                    }
                });
                serve.await;
                Ok(0)
            }
        }
    }
}

/// Until no connection is taken any more.
async fn drain(mut termination: Termination, health: Arc<EndpointHealth>, time: Duration) {
    let name = termination.next().await;
    health.ready.store(false, Ordering::Relaxed);
    health.draining.store(true, Ordering::Relaxed);
    println!("got {name}, draining for {}", humantime::format_duration(time));
    tokio::time::sleep(time).await;
}

async fn change_health(
    health: Arc<EndpointHealth>,
    start_delay: Duration,
    unhealthy_after: Option<Duration>,
) {
    tokio::time::sleep(start_delay).await;
    health.started.store(true, Ordering::Relaxed);
    health.ready.store(true, Ordering::Relaxed);
    println!("ready");
    if let Some(unhealthy_after) = unhealthy_after {
        tokio::time::sleep(unhealthy_after.saturating_sub(start_delay)).await;
        health.healthy.store(false, Ordering::Relaxed);
        println!("unhealthy");
    }
}

fn router(health: &Arc<EndpointHealth>, text: String, answer_delay: Duration) -> Router {
    let endpoint = |read: fn(&EndpointHealth) -> bool| {
        let health = Arc::clone(health);
        get(move || async move {
            if read(&health) {
                (StatusCode::OK, "ok\n")
            } else {
                (StatusCode::SERVICE_UNAVAILABLE, "not ok\n")
            }
        })
    };
    let fall_ill = {
        let health = Arc::clone(health);
        post(move || async move {
            health.healthy.store(false, Ordering::Relaxed);
            println!("unhealthy");
            "unhealthy\n"
        })
    };
    let answer = get(move || async move {
        // a timer, even one of no time, is late by up to a millisecond
        if !answer_delay.is_zero() {
            tokio::time::sleep(answer_delay).await;
        }
        format!("{text}\n")
    });
    let health_of_connections = Arc::clone(health);
    Router::new()
        .route("/", answer)
        .route("/startz", endpoint(|health| health.started.load(Ordering::Relaxed)))
        .route("/readyz", endpoint(|health| health.ready.load(Ordering::Relaxed)))
        .route("/healthz", endpoint(|health| health.healthy.load(Ordering::Relaxed)))
        .route("/unhealthy", fall_ill)
        .layer(from_fn(move |request: Request, next: Next| {
            let health = Arc::clone(&health_of_connections);
            async move { end_when_draining(&health, next.run(request).await) }
        }))
}

/// A client that keeps its connection goes elsewhere after such an answer, and does not find out
/// with its next request that the server has gone.
fn end_when_draining(health: &EndpointHealth, mut answer: Response) -> Response {
    if health.draining.load(Ordering::Relaxed) {
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}
