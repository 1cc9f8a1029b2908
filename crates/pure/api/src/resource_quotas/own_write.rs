//! Writes that the server decides itself: quotas count them, and none refuses them.

use rekindle_kinds::registry::{AnyObject, KindEntry};
use rekindle_store::{PendingWrite, StoreError, WritePrecondition};
use rekindle_types::Tick;

use super::quota_write::QuotaWrite;
use crate::call::{ATTEMPTS_MAX, ObjectChange, put};
use crate::shared::ApiShared;

/// Queues a write of the server's own, with what it changes of quotas. `old` is the object before.
///
/// # Errors
/// Those of the store: nothing is written then.
pub(crate) fn put_own(
    api: &ApiShared,
    entry: &KindEntry,
    (key, expect, object): (&str, WritePrecondition, &dyn AnyObject),
    old: Option<&dyn AnyObject>,
    now: Tick,
) -> Result<Vec<PendingWrite>, StoreError> {
    until_decided(key, || {
        let written = object.boxed_clone();
        match QuotaWrite::of_own(api, entry, (old, Some(object)), now) {
            Some(quotas) => {
                quotas.queue(ObjectChange::Put { key: key.to_owned(), expect, object: written })
            }
            None => put(api, key, expect, written).map(|write| vec![write]),
        }
    })
}

/// Decides a write again when something that is written with it was written in between: a quota,
/// or what a failed commit took back. The object itself is behind `key`, and not tried again.
///
/// # Errors
/// Those of the last attempt.
pub(crate) fn until_decided<T>(
    key: &str,
    mut attempt: impl FnMut() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut result = attempt();
    for _ in 1..ATTEMPTS_MAX {
        let is_raced = match &result {
            Err(StoreError::Conflict { key: raced, .. } | StoreError::NotFound { key: raced }) => {
                raced.as_str() != key
            }
            Err(StoreError::RolledBack) => true,
            Ok(_) | Err(_) => false,
        };
        if !is_raced {
            break;
        }
        result = attempt();
    }
    result
}

#[cfg(test)]
mod tests {
    use rekindle_store::Revision;

    use super::*;

    #[test]
    fn a_write_is_decided_again_when_something_beside_its_object_was_written() {
        let conflict = |key: &str| StoreError::Conflict {
            key: key.into(),
            expected: Revision(1),
            actual: Revision(2),
        };
        for (error, attempts) in [
            (conflict("/quota"), ATTEMPTS_MAX),
            (StoreError::RolledBack, ATTEMPTS_MAX),
            (StoreError::NotFound { key: "/quota".into() }, ATTEMPTS_MAX),
            (conflict("/own"), 1),
            (StoreError::NotFound { key: "/own".into() }, 1),
            (StoreError::Closed, 1),
        ] {
            let mut made = 0;
            let result: Result<(), _> = until_decided("/own", || {
                made += 1;
                Err(error.clone())
            });
            assert_eq!((result.unwrap_err().to_string(), made), (error.to_string(), attempts));
        }
        let mut left = vec![Err(conflict("/quota")), Ok(7)];
        assert_eq!(until_decided("/own", || left.remove(0)).unwrap(), 7);
    }
}
