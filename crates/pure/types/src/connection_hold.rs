//! For how long new connections to a Service without endpoints wait instead of being refused.
//!
//! ```yaml
//! metadata:
//!   annotations:
//!     rekindle.dev/hold-connections: 10s
//! ```

use std::collections::BTreeMap;

use crate::{TickDuration, span};

/// The annotation of a Service.
pub const ANNOTATION: &str = "rekindle.dev/hold-connections";
/// Without it, and only while pods are restarted in place.
const OF_RESTARTS: TickDuration = TickDuration::from_secs(2);
/// Clients give up after about that time.
const MAX: TickDuration = TickDuration::from_secs(60);

/// When connections wait, and for how long after the Service has lost its last endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionHold {
    /// While pods are restarted in place: the Service says nothing.
    OfRestarts,
    /// Whatever the reason, for this long; zero: never.
    For(TickDuration),
}

impl ConnectionHold {
    /// What the annotations of a Service say; nothing at all where they cannot be read.
    pub fn from_annotations(annotations: Option<&BTreeMap<String, String>>) -> Self {
        let text = annotations.and_then(|all| all.get(ANNOTATION));
        match text.map(|text| Self::parse(text)) {
            Some(Ok(hold)) => hold,
            Some(Err(_)) | None => Self::OfRestarts,
        }
    }

    /// What the annotation says.
    ///
    /// # Errors
    /// When it is no span of time, or one of more than a minute.
    pub fn parse(text: &str) -> Result<Self, String> {
        let time = span::parse(text).map_err(|error| error.to_string())?;
        match time > MAX {
            true => Err(format!("must be at most {}", span::show(MAX))),
            false => Ok(Self::For(time)),
        }
    }

    /// For how long connections wait.
    pub const fn time(self) -> TickDuration {
        match self {
            Self::OfRestarts => OF_RESTARTS,
            Self::For(time) => time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_says_for_how_long_or_nothing() {
        let read = |text: &str| {
            let annotations = BTreeMap::from([(ANNOTATION.to_owned(), text.to_owned())]);
            ConnectionHold::from_annotations(Some(&annotations))
        };
        assert_eq!(ConnectionHold::from_annotations(None), ConnectionHold::OfRestarts);
        assert_eq!(ConnectionHold::OfRestarts.time(), TickDuration::from_secs(2));
        assert_eq!(read("500ms"), ConnectionHold::For(TickDuration::from_millis(500)));
        assert_eq!(read("1m"), ConnectionHold::For(TickDuration::from_secs(60)));
        assert_eq!(read("0s").time(), TickDuration::ZERO);
        assert_eq!(read("soon"), ConnectionHold::OfRestarts);
        assert_eq!(ConnectionHold::parse("61s"), Err("must be at most 1m".to_owned()));
        let error = "\"soon\" is not a duration such as 90s, 10m or 1h30m";
        assert_eq!(ConnectionHold::parse("soon"), Err(error.to_owned()));
    }
}
