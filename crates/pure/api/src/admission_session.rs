//! What one request has drawn and learned so far, when webhooks have to be asked: those of
//! admission, and those that convert objects between versions.
//!
//! The core does no IO. When it meets a webhook that has not answered yet, it says what to ask, and
//! gives up. Once the front has asked, it handles the same request again, from its beginning and on
//! the newest state. So no lock is held and no thread waits while a webhook thinks.
//!
//! ```text
//!   handle ──▶ questions ──▶ the front asks ──▶ answers ──▶ handle ──▶ … ──▶ the outcome
//! ```
//! An answer counts for the very question that it was given to: the same webhook in the same
//! version, and the same content. That needs the same UID, names and addresses in each run, so what
//! they are chosen by is drawn once.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::admission::webhooks::{ReviewAnswer, StoredWebhook, WebhookReview};
use crate::custom::ConversionReview;
use crate::status::ApiError;

/// A question to a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookQuestion {
    /// The webhook's name.
    pub webhook: String,
    /// Where it is.
    pub target: WebhookTarget,
    /// The certificates (PEM) that its own must be signed by; empty: those of the machine.
    pub ca_bundle: Bytes,
    /// Seconds that it has.
    pub timeout_seconds: u32,
    /// An AdmissionReview or a ConversionReview, as JSON.
    pub body: Bytes,
    /// The longest answer.
    pub answer_bytes_max: usize,
}

/// Where a webhook is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookTarget {
    /// What is asked, which messages show: `https://HOST[:PORT]/PATH?timeout=10s`.
    pub url: String,
    /// Behind a Service: a ready endpoint of it, or why there is none. Without one, the host of the
    /// URL.
    pub endpoint: Option<Result<SocketAddr, String>>,
}

/// The most questions of one run, and the bytes from which on it asks no more.
const QUESTIONS_MAX: usize = 64;
const QUESTION_BYTES_MAX: usize = 8 << 20;

/// Tells what was asked; the content itself may be large.
pub(crate) type ContentDigest = [u8; 32];

/// What was asked in the current run.
struct OpenQuestion {
    asked: AskedReview,
    question: WebhookQuestion,
}

/// What a question is about.
enum AskedReview {
    /// Whether a webhook of admission allows a write.
    Admission { webhook: Arc<StoredWebhook>, content: ContentDigest, review: WebhookReview },
    /// What objects are in another version.
    Conversion(ConversionReview),
}

/// What objects are in another version, or why that is not known.
type ConvertedObjects = BTreeMap<ContentDigest, Result<Bytes, String>>;

/// The version of a webhook, by where it lies, and what it was asked.
type ReviewKey = (usize, ContentDigest);

fn review_key(webhook: &Arc<StoredWebhook>, content: ContentDigest) -> ReviewKey {
    (Arc::as_ptr(webhook).addr(), content)
}

/// What a webhook has said to a review.
struct Answered {
    /// Keeps its place, so that the key is that of no other version.
    _webhook: Arc<StoredWebhook>,
    answer: Arc<Result<ReviewAnswer, String>>,
}

/// What one request has drawn and learned so far.
#[derive(Default)]
pub struct AdmissionSession {
    uid: RefCell<Option<String>>,
    /// With their prefixes, in the order in which they are drawn.
    names: RefCell<Vec<(String, String)>>,
    names_taken: Cell<usize>,
    /// In the order in which they are drawn.
    numbers: RefCell<Vec<u128>>,
    numbers_taken: Cell<usize>,
    is_counted: Cell<bool>,
    answered: RefCell<BTreeMap<ReviewKey, Answered>>,
    converted: RefCell<ConvertedObjects>,
    open: RefCell<Vec<OpenQuestion>>,
}

impl AdmissionSession {
    /// Says what the open questions were answered, in their order: with a body, or that the webhook
    /// could not be asked.
    pub fn answer(&mut self, answers: Vec<Result<Bytes, String>>) {
        for (open, answer) in self.open.get_mut().drain(..).zip(answers) {
            let url = &open.question.target.url;
            let answer = answer.map_err(|why| format!("Post {url:?}: {why}"));
            match open.asked {
                AskedReview::Admission { webhook, content, review } => {
                    let answer = match answer {
                        Ok(body) => review.read_answer(&body).map_err(|why| why.to_string()),
                        Err(why) => Err(format!("failed to call webhook: {why}")),
                    };
                    let key = review_key(&webhook, content);
                    let answered = Answered { _webhook: webhook, answer: Arc::new(answer) };
                    self.answered.get_mut().insert(key, answered);
                }
                AskedReview::Conversion(review) => {
                    self.converted.get_mut().extend(review.read_answer(answer));
                }
            }
        }
    }

    /// A run begins.
    pub(crate) fn begin_run(&self) {
        self.names_taken.set(0);
        self.numbers_taken.set(0);
        self.open.borrow_mut().clear();
    }

    /// What has to be asked before the next run.
    pub(crate) fn questions(&self) -> Vec<WebhookQuestion> {
        self.open.borrow().iter().map(|open| open.question.clone()).collect()
    }

    /// Whether a question of this run has no answer yet.
    pub(crate) fn waits(&self) -> bool {
        !self.open.borrow().is_empty()
    }

    /// Whether this run has asked as much as one may: the rest is asked in the next one.
    pub(crate) fn is_full(&self) -> bool {
        let open = self.open.borrow();
        let bytes: usize = open.iter().map(|open| open.question.body.len()).sum();
        open.len() >= QUESTIONS_MAX || bytes >= QUESTION_BYTES_MAX
    }

    /// What the webhook has said to this review. Without an answer, none; then it is asked.
    pub(crate) fn answer_to(
        &self,
        webhook: &Arc<StoredWebhook>,
        content: &[u8],
        ask: impl FnOnce() -> (WebhookReview, WebhookQuestion),
    ) -> Option<Arc<Result<ReviewAnswer, String>>> {
        let digest: ContentDigest = Sha256::digest(content).into();
        if let Some(known) = self.answered.borrow().get(&review_key(webhook, digest)) {
            return Some(Arc::clone(&known.answer));
        }
        let (review, question) = ask();
        let webhook = Arc::clone(webhook);
        let asked = AskedReview::Admission { webhook, content: digest, review };
        self.open.borrow_mut().push(OpenQuestion { asked, question });
        None
    }

    /// What a webhook has made of an object in another version, if it was asked.
    pub(crate) fn converted(&self, object: &ContentDigest) -> Option<Result<Bytes, String>> {
        self.converted.borrow().get(object).cloned()
    }

    /// Asks a webhook what objects are in another version.
    pub(crate) fn convert(&self, review: ConversionReview, question: WebhookQuestion) {
        let asked = AskedReview::Conversion(review);
        self.open.borrow_mut().push(OpenQuestion { asked, question });
    }

    /// True the first time that Pod Security looks at the request: it counts requests, not runs.
    pub(crate) fn count_review(&self) -> bool {
        !self.is_counted.replace(true)
    }

    /// The next number of this run.
    pub(crate) fn number(&self, draw: impl FnOnce() -> u128) -> u128 {
        let at = self.numbers_taken.replace(self.numbers_taken.get() + 1);
        let mut numbers = self.numbers.borrow_mut();
        if at >= numbers.len() {
            numbers.push(draw());
        }
        numbers[at]
    }

    /// The UID of the object that the request makes.
    pub(crate) fn uid(&self, draw: impl FnOnce() -> String) -> String {
        self.uid.borrow_mut().get_or_insert_with(draw).clone()
    }

    /// The next name of this run.
    pub(crate) fn name(&self, prefix: &str, draw: impl FnOnce() -> String) -> String {
        let at = self.names_taken.replace(self.names_taken.get() + 1);
        let mut names = self.names.borrow_mut();
        // what was drawn for another prefix was drawn on another way
        let is_known = names.get(at).is_some_and(|(known, _)| known == prefix);
        if !is_known {
            names.truncate(at);
            names.push((prefix.to_owned(), draw()));
        }
        names[at].1.clone()
    }
}

/// Ends a run that cannot go on. Clients never see it: [`crate::Api::handle_in`] answers with the
/// questions.
pub(crate) fn waits() -> ApiError {
    ApiError::internal("a webhook has not answered yet")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_of_a_request_draws_the_same() {
        let session = AdmissionSession::default();
        let mut drawn = 0..;
        let mut draw = || format!("n{}", drawn.next().unwrap());
        let mut run = |prefixes: &[&str]| {
            session.begin_run();
            let uid = session.uid(&mut draw);
            let names = prefixes.iter().map(|prefix| session.name(prefix, &mut draw));
            (uid, names.collect::<Vec<_>>())
        };
        let first = run(&["a", "b"]);
        assert_eq!(first, ("n0".to_owned(), vec!["n1".to_owned(), "n2".to_owned()]));
        assert_eq!(run(&["a", "b"]), first);
        assert_eq!(run(&["b", "b"]).1, ["n3", "n4"]);
    }
}
