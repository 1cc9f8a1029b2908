//! Who hears that a ladder is exhausted: what the receiver reads, and when it is told.

mod notice;
mod outbox;

pub use notice::ExhaustionNotice;
pub use outbox::{DeliveryResult, DeliveryStep, LedgerRef, NoticeDelivery, NoticeOutbox};
