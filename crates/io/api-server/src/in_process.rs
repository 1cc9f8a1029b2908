//! The API as a tower service inside the process: no sockets, no TLS, the same handling.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use rekindle_kinds::identity::{ClientIdentity, UserInfo};
use tower::Service;

use super::body::FrontBody;
use super::caller::RequestSource;
use super::front::Front;

/// Serves requests as one user. `kube::Client::new(in_process, "default")` makes a client of it.
#[derive(Clone)]
pub struct InProcessService {
    front: Front,
    caller: RequestSource,
}

impl Front {
    /// A tower service that acts as `user`, without sockets: made for `kube::Client::new`.
    pub fn in_process_service(&self, user: UserInfo) -> InProcessService {
        InProcessService::new(self.clone(), ClientIdentity::User(user))
    }
}

impl InProcessService {
    /// A service that acts as `identity`.
    pub fn new(front: Front, identity: ClientIdentity) -> Self {
        Self { front, caller: RequestSource::InProcess(identity) }
    }
}

impl<B> Service<Request<B>> for InProcessService
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<FrontBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (front, caller) = (self.front.clone(), self.caller.clone());
        Box::pin(async move { Ok(front.serve(&caller, request).await) })
    }
}
