//! The body of an answer: some bytes, a list, the lines of a watch, a log, or what a pod answers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http_body::{Body, Frame, SizeHint};
use rekindle_api::EventStream;
use rekindle_api::represent::ListPieces;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::audit::AuditTrail;
use super::clock::Clock;
use super::metrics::OpenCount;
use super::pod_dialer::PodDialer;
use super::shares::RequestShare;
use super::webhooks;

/// Bytes as they come, of a log for example. An error ends the answer; the client sees it cut off.
pub type LogStream = BoxStream<'static, Result<Bytes, std::io::Error>>;

/// How long the webhooks may take that convert what a watch shows. Each has a time of its own.
const ASKED_WITHIN: Duration = Duration::from_secs(60);

/// How often a quiet watch gets a bookmark, as upstream.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// Bytes that are handed on at a time, when it counts what the client has not taken yet.
const PIECE_BYTES: usize = 64 * 1024;

/// The body of an answer.
pub struct FrontBody {
    kind: BodyKind,
    /// What its user holds by it, until the client has taken it.
    share: Option<RequestShare>,
    /// The trail of its request, which ends with it.
    _trail: Option<Arc<AuditTrail>>,
}

enum BodyKind {
    Full(Bytes),
    List(Box<ListPieces>),
    Watch(Pin<Box<WatchBody>>),
    Stream(LogStream),
}

/// Whether the front is going down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrontPhase {
    Running,
    Stopping,
}

struct WatchBody {
    stream: EventStream,
    clock: Clock,
    /// The end of the watch.
    deadline: Pin<Box<Sleep>>,
    /// The next bookmark.
    bookmark: Pin<Box<Sleep>>,
    /// Resolves when the front goes down.
    stopping: BoxFuture<'static, ()>,
    /// How webhooks are asked that convert what the watch shows.
    dialer: Arc<dyn PodDialer>,
    /// What they are asked now.
    asking: Option<BoxFuture<'static, Vec<Result<Bytes, String>>>>,
    /// Whether the time is over and everything was sent.
    is_over: bool,
    /// Counts it as open.
    _open: OpenCount,
}

impl FrontBody {
    fn new(kind: BodyKind) -> Self {
        Self { kind, share: None, _trail: None }
    }

    /// The same, as the end of a long-running request's trail.
    pub(super) fn ending(self, trail: Arc<AuditTrail>) -> Self {
        Self { _trail: Some(trail), ..self }
    }

    /// The same, counted as its user's until it has been taken.
    pub(super) fn holding(self, share: RequestShare) -> Self {
        Self { share: Some(share), ..self }
    }

    /// Gives the room of the request's body back, if its user still holds that.
    pub(super) fn give_request_body_back(&mut self) {
        if let Some(share) = &mut self.share {
            share.give_body_back();
        }
    }

    /// Whether it goes on for as long as the client wants.
    pub(super) fn is_long_running(&self) -> bool {
        match &self.kind {
            BodyKind::Full(_) | BodyKind::List(_) => false,
            BodyKind::Watch(_) | BodyKind::Stream(_) => true,
        }
    }

    /// The bytes, if all of them are there already.
    pub(super) fn full_bytes(&self) -> Option<&Bytes> {
        match &self.kind {
            BodyKind::Full(bytes) => Some(bytes),
            BodyKind::List(_) | BodyKind::Watch(_) | BodyKind::Stream(_) => None,
        }
    }

    /// Bytes that are held until the client has taken them.
    pub(super) fn held_bytes(&self) -> usize {
        match &self.kind {
            BodyKind::Full(bytes) => bytes.len(),
            BodyKind::List(list) => list.bytes_left(),
            BodyKind::Watch(_) | BodyKind::Stream(_) => 0,
        }
    }

    pub(super) fn full(bytes: Bytes) -> Self {
        Self::new(BodyKind::Full(bytes))
    }

    /// A list, made in pieces.
    pub(super) fn list(list: ListPieces) -> Self {
        Self::new(BodyKind::List(Box::new(list)))
    }

    /// Bytes as they come: a log, or what a pod answers.
    pub(super) fn stream(stream: LogStream) -> Self {
        Self::new(BodyKind::Stream(stream))
    }

    pub(super) fn watch(
        stream: EventStream,
        timeout: Duration,
        (clock, dialer): (Clock, Arc<dyn PodDialer>),
        mut phase: watch::Receiver<FrontPhase>,
        open: OpenCount,
    ) -> Self {
        let stopping = async move {
            // An error means that the front is gone, which is the same.
            let _ = phase.wait_for(|phase| *phase == FrontPhase::Stopping).await;
        };
        Self::new(BodyKind::Watch(Box::pin(WatchBody {
            stream,
            clock,
            deadline: Box::pin(sleep(timeout)),
            bookmark: Box::pin(sleep(BOOKMARK_INTERVAL)),
            stopping: Box::pin(stopping),
            dialer,
            asking: None,
            is_over: false,
            _open: open,
        })))
    }
}

impl WatchBody {
    /// The next line. At the deadline everything that is there is sent first: no event is lost to a
    /// timeout.
    fn poll_line(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let now = (self.clock)();
        loop {
            if let Some(asking) = &mut self.asking {
                let Poll::Ready(answers) = asking.as_mut().poll(context) else { break };
                self.asking = None;
                self.stream.answer(answers);
            }
            if let Poll::Ready(line) = self.stream.poll_next(context, now) {
                return Poll::Ready(line);
            }
            let questions = self.stream.questions();
            if questions.is_empty() {
                break;
            }
            let dialer = Arc::clone(&self.dialer);
            self.asking = Some(Box::pin(async move {
                let deadline = Instant::now() + ASKED_WITHIN;
                webhooks::ask_all(&dialer, questions, deadline).await
            }));
        }
        let over = self.deadline.as_mut().poll(context).is_ready()
            || self.stopping.as_mut().poll(context).is_ready();
        if over {
            self.is_over = true;
            return Poll::Ready(self.stream.bookmark());
        }
        while self.bookmark.as_mut().poll(context).is_ready() {
            self.bookmark.set(sleep_until(Instant::now() + BOOKMARK_INTERVAL));
            if let Some(line) = self.stream.bookmark() {
                return Poll::Ready(Some(line));
            }
        }
        Poll::Pending
    }
}

impl Body for FrontBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let Self { kind, share, .. } = self.get_mut();
        let piece_bytes = if share.is_some() { PIECE_BYTES } else { usize::MAX };
        match kind {
            BodyKind::Full(bytes) if bytes.is_empty() => Poll::Ready(None),
            BodyKind::Full(bytes) => {
                let piece = bytes.split_to(piece_bytes.min(bytes.len()));
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            BodyKind::List(list) => {
                let piece = list.next_piece(piece_bytes);
                Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
            }
            BodyKind::Watch(watch) => watch
                .as_mut()
                .get_mut()
                .poll_line(context)
                .map(|line| line.map(|line| Ok(Frame::data(line)))),
            BodyKind::Stream(stream) => stream
                .as_mut()
                .poll_next(context)
                .map(|item| item.map(|bytes| bytes.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            BodyKind::Full(_) | BodyKind::List(_) => self.held_bytes() == 0,
            BodyKind::Watch(_) | BodyKind::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            BodyKind::Full(_) | BodyKind::List(_) => SizeHint::with_exact(self.held_bytes() as u64),
            BodyKind::Watch(_) | BodyKind::Stream(_) => SizeHint::default(),
        }
    }
}

/// A shared channel that tells of the front's end.
pub(super) type PhaseSender = Arc<watch::Sender<FrontPhase>>;

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    /// Handed over whole, it would be forgotten while the connection still holds all of it.
    #[tokio::test]
    async fn an_answer_that_is_counted_is_handed_on_in_pieces() {
        let bytes = Bytes::from(vec![b'x'; 3 * PIECE_BYTES - 1]);
        let mut body = FrontBody::full(bytes.clone()).holding(RequestShare::Uncounted);
        assert_eq!(
            (body.held_bytes(), body.size_hint().exact()),
            (bytes.len(), Some(3 * 65_536 - 1))
        );
        let mut pieces = Vec::new();
        while let Some(frame) = body.frame().await {
            pieces.push(frame.unwrap().into_data().unwrap());
        }
        let lengths: Vec<usize> = pieces.iter().map(Bytes::len).collect();
        assert_eq!(lengths, [PIECE_BYTES, PIECE_BYTES, PIECE_BYTES - 1]);
        assert!(body.is_end_stream());
        let whole = FrontBody::full(bytes.clone()).frame().await.unwrap().unwrap();
        assert_eq!(whole.into_data().unwrap(), bytes, "to a part of this process it goes whole");
    }
}
