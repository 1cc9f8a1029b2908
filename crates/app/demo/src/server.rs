//! `demo server`: an HTTP server with the three health endpoints, a slow start, and a drain on
//! SIGTERM.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;

use crate::{DemoError, Termination, duration};

/// Serve HTTP on /, /startz, /readyz and /healthz; drain on SIGTERM.
#[derive(Clone, Debug, clap::Args)]
pub struct ServerDemo {
    /// The port
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// How long /startz and /readyz answer 503 after the start
    #[arg(long, value_parser = duration, default_value = "0s")]
    start_delay: Duration,
    /// After how long /healthz begins to answer 503
    #[arg(long, value_parser = duration)]
    unhealthy_after: Option<Duration>,
    /// How long requests are still answered after SIGTERM, while /readyz says 503
    #[arg(long, value_parser = duration, default_value = "0s")]
    drain: Duration,
    /// What / answers
    #[arg(long, default_value = "ok")]
    text: String,
}

/// What the endpoints say.
struct EndpointHealth {
    started: AtomicBool,
    ready: AtomicBool,
    healthy: AtomicBool,
}

impl ServerDemo {
    pub(crate) async fn run(self) -> Result<u8, DemoError> {
        let mut termination = Termination::listen()?;
        let listener = tokio::net::TcpListener::bind(("0.0.0.0", self.port))
            .await
            .map_err(|source| DemoError::Listen { port: self.port, source })?;
        println!("listening on port {}", self.port);

        let health = Arc::new(EndpointHealth {
            started: AtomicBool::new(false),
            ready: AtomicBool::new(false),
            healthy: AtomicBool::new(true),
        });
        tokio::spawn(change_health(Arc::clone(&health), self.start_delay, self.unhealthy_after));
        let router = router(&health, self.text);
        let drained = async move {
            let name = termination.next().await;
            health.ready.store(false, Ordering::Relaxed);
            println!("got {name}, draining for {}", humantime::format_duration(self.drain));
            tokio::time::sleep(self.drain).await;
        };
        axum::serve(listener, router)
            .with_graceful_shutdown(drained)
            .await
            .map_err(DemoError::Serve)?;
        println!("drained");
        Ok(0)
    }
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

fn router(health: &Arc<EndpointHealth>, text: String) -> Router {
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
    Router::new()
        .route("/", get(move || async move { format!("{text}\n") }))
        .route("/startz", endpoint(|health| health.started.load(Ordering::Relaxed)))
        .route("/readyz", endpoint(|health| health.ready.load(Ordering::Relaxed)))
        .route("/healthz", endpoint(|health| health.healthy.load(Ordering::Relaxed)))
}
