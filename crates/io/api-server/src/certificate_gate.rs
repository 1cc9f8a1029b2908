//! Which client certificates are let in. When one is revoked or expires, its open connections end
//! with all that runs on them: requests, watches, streams into pods.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::task::AtomicWaker;
use rekindle_types::Tick;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::clock::Clock;
use super::pki::{ClientCertificate, RevokedCertificates};

/// The certificates that are void, and the connections of the others. Cheap to clone.
#[derive(Clone)]
pub(super) struct CertificateGate {
    state: Arc<Mutex<GateState>>,
    clock: Clock,
}

#[derive(Default)]
struct GateState {
    revoked: RevokedCertificates,
    next: u64,
    open: BTreeMap<u64, (ClientCertificate, Arc<EndSignal>)>,
}

/// A connection with a good certificate, as long as it is open.
struct OpenConnection {
    gate: CertificateGate,
    number: u64,
    end: Arc<EndSignal>,
    good_until: Tick,
}

/// Ends a connection from outside.
#[derive(Default)]
struct EndSignal {
    is_given: AtomicBool,
    reader: AtomicWaker,
    writer: AtomicWaker,
}

/// The bytes of a connection, until its certificate is revoked.
pub(super) struct GatedStream<S> {
    stream: S,
    /// None where the client showed no certificate.
    connection: Option<OpenConnection>,
}

/// What became of a certificate at the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CertificateState {
    Good,
    Revoked,
}

impl CertificateGate {
    pub(super) fn new(clock: Clock) -> Self {
        Self { state: Arc::default(), clock }
    }

    /// Lets a connection in. Its client has shown this certificate, or none.
    pub(super) fn enter<S>(
        &self,
        stream: S,
        certificate: Option<&ClientCertificate>,
    ) -> (GatedStream<S>, CertificateState) {
        let Some(certificate) = certificate else {
            return (GatedStream { stream, connection: None }, CertificateState::Good);
        };
        let mut state = self.state();
        if state.revoked.covers(certificate) {
            return (GatedStream { stream, connection: None }, CertificateState::Revoked);
        }
        let (number, end) = (state.next, Arc::new(EndSignal::default()));
        state.next += 1;
        state.open.insert(number, (certificate.clone(), Arc::clone(&end)));
        drop(state);
        let good_until = certificate.good_until;
        let connection = OpenConnection { gate: self.clone(), number, end, good_until };
        (GatedStream { stream, connection: Some(connection) }, CertificateState::Good)
    }

    /// From now on these are void. Answers how many connections end.
    pub(super) fn revoke(&self, revoked: RevokedCertificates) -> usize {
        let mut state = self.state();
        let ended = state.open.values().filter(|(certificate, _)| revoked.covers(certificate));
        let ended = ended.map(|(_, end)| end.give()).count();
        state.revoked = revoked;
        ended
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.gate.state().open.remove(&self.number);
    }
}

impl OpenConnection {
    /// Fails once the certificate is void. The task hears of a revocation by this waker if it has
    /// to wait; that a certificate has expired is seen when something is read or written.
    fn check(&self, waker: &AtomicWaker, context: &Context<'_>) -> io::Result<()> {
        waker.register(context.waker());
        let why = if self.end.is_given.load(Ordering::Acquire) {
            "the client's certificate was revoked"
        } else if (self.gate.clock)() > self.good_until {
            "the client's certificate has expired"
        } else {
            return Ok(());
        };
        Err(io::Error::new(io::ErrorKind::ConnectionAborted, why))
    }
}

impl EndSignal {
    fn give(&self) {
        self.is_given.store(true, Ordering::Release);
        self.reader.wake();
        self.writer.wake();
    }
}

impl<S> GatedStream<S> {
    fn check_reader(&self, context: &Context<'_>) -> io::Result<()> {
        self.connection.as_ref().map_or(Ok(()), |open| open.check(&open.end.reader, context))
    }

    fn check_writer(&self, context: &Context<'_>) -> io::Result<()> {
        self.connection.as_ref().map_or(Ok(()), |open| open.check(&open.end.writer, context))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for GatedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check_reader(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for GatedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check_writer(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check_writer(context)?;
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_writer(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_writer(context)?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use rekindle_kinds::identity::UserInfo;
    use rekindle_types::TickDuration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const NOW: Tick = Tick::from_secs(1_795_000_000);

    const UNTIL: Tick = Tick::from_secs(1_795_000_060);

    fn certificate(user: &str, good_from: Tick) -> ClientCertificate {
        ClientCertificate { user: UserInfo::new(user, []), good_from, good_until: UNTIL }
    }

    fn gate() -> CertificateGate {
        CertificateGate::new(Arc::new(|| NOW))
    }

    fn revoked(user: &str) -> RevokedCertificates {
        let mut revoked = RevokedCertificates::default();
        revoked.revoke(user, NOW);
        revoked
    }

    #[tokio::test]
    async fn connections_of_a_revoked_certificate_end_while_they_wait_and_others_go_on() {
        let gate = gate();
        let enter = |certificate: Option<&ClientCertificate>| {
            let (ours, theirs) = duplex(64);
            let (stream, state) = gate.enter(ours, certificate);
            assert_eq!(state, CertificateState::Good);
            (stream, theirs)
        };
        let later = NOW + TickDuration::from_secs(1);
        let (mut jane, _janes) = enter(Some(&certificate("jane", NOW)));
        let (mut bob, mut bobs) = enter(Some(&certificate("bob", NOW)));
        let (mut anyone, mut theirs) = enter(None);
        let (mut renewed, mut renewed_client) = enter(Some(&certificate("jane", later)));
        let mut byte = [0];
        let waiting = jane.read_exact(&mut byte);
        let revoke = async { gate.revoke(revoked("jane")) };
        let (read, ended) = tokio::join!(waiting, revoke);
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
        assert_eq!(ended, 1);
        assert_eq!(jane.write(b"x").await.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
        for (stream, client) in
            [(&mut bob, &mut bobs), (&mut anyone, &mut theirs), (&mut renewed, &mut renewed_client)]
        {
            client.write_all(b"y").await.unwrap();
            stream.read_exact(&mut byte).await.unwrap();
            assert_eq!(byte, *b"y");
        }
    }

    #[tokio::test]
    async fn a_connection_ends_with_its_certificate() {
        let now = Arc::new(Mutex::new(NOW));
        let read = Arc::clone(&now);
        let gate = CertificateGate::new(Arc::new(move || *read.lock().unwrap()));
        let (ours, mut theirs) = duplex(64);
        let (mut stream, _) = gate.enter(ours, Some(&certificate("jane", NOW)));
        let mut byte = [0];
        for (at, is_good) in [(UNTIL, true), (UNTIL + TickDuration::from_millis(1), false)] {
            *now.lock().unwrap() = at;
            theirs.write_all(b"y").await.unwrap();
            assert_eq!(stream.read_exact(&mut byte).await.is_ok(), is_good);
            assert_eq!(stream.write_all(b"z").await.is_ok(), is_good);
        }
    }

    #[test]
    fn a_revoked_certificate_is_not_let_in_and_nothing_is_left_of_what_has_ended() {
        let gate = gate();
        let (open, _) = gate.enter((), Some(&certificate("jane", NOW)));
        drop(open);
        assert_eq!(gate.revoke(revoked("jane")), 0);
        let (_, state) = gate.enter((), Some(&certificate("jane", NOW)));
        assert_eq!(state, CertificateState::Revoked);
        assert!(gate.state().open.is_empty());
    }
}
