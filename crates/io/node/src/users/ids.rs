//! The ids of the host that a node gives to its pods.

use rekindle_runtime::UserRange;

/// Ids of one pod by default, and what any other number must be a multiple of; the kubelet's.
const PER_POD: u32 = 65_536;
/// The first id by default: beyond the users of any machine, and beyond the ids that `useradd`
/// gives users for containers of theirs (`SUB_UID_MAX` of login.defs).
const FIRST: u32 = 1 << 30;
/// Ids of one node: as many pods of [`PER_POD`] as a node takes by default, and some for those that
/// are on their way out. The nodes that one machine can have all fit beneath 2³¹, where ids are
/// negative numbers to some programs.
const PER_NODE: u32 = 126 * PER_POD;

/// Which ids a node has to give, in ranges of the same length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserIdRanges {
    first: u32,
    per_pod: u32,
}

/// Ids that cannot be given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UserIdsError {
    /// The length of a range.
    #[error("userNamespaces.idsPerPod: {0} is not a multiple of 65536 from 65536 to 8257536")]
    PerPod(i64),
    /// Where they begin.
    #[error(
        "userNamespaces.firstId: {0} is not a multiple of 65536 from 65536 on that leaves room for a node's 8257536 ids"
    )]
    First(i64),
}

impl Default for UserIdRanges {
    fn default() -> Self {
        Self { first: FIRST, per_pod: PER_POD }
    }
}

impl UserIdRanges {
    /// Those of a machine's first node; `None` is the default.
    ///
    /// # Errors
    /// Numbers that are not aligned as the kubelet's are, or too large.
    pub fn new(first: Option<i64>, per_pod: Option<i64>) -> Result<Self, UserIdsError> {
        let aligned = |id: i64| u32::try_from(id).ok().filter(|id| *id > 0 && id % PER_POD == 0);
        let default = Self::default();
        let per_pod = match per_pod {
            None => default.per_pod,
            Some(given) => aligned(given)
                .filter(|length| *length <= PER_NODE)
                .ok_or(UserIdsError::PerPod(given))?,
        };
        let first = match first {
            None => default.first,
            Some(given) => aligned(given)
                .filter(|first| first.checked_add(PER_NODE).is_some())
                .ok_or(UserIdsError::First(given))?,
        };
        Ok(Self { first, per_pod })
    }

    /// Those of another node of the same machine, by its number, the first one's being 0: no two
    /// nodes have an id in common. It has none when they would go beyond what there is.
    pub fn of_node(self, number: u8) -> Self {
        let before = u32::from(number).checked_mul(PER_NODE);
        let first = before.and_then(|before| self.first.checked_add(before));
        Self { first: first.unwrap_or(u32::MAX), ..self }
    }

    /// The ranges, from the first on.
    pub(crate) fn ranges(self) -> impl Iterator<Item = UserRange> {
        let length = self.per_pod;
        (0..PER_NODE / length).map_while(move |number| {
            let first = self.first.checked_add(number.checked_mul(length)?)?;
            first.checked_add(length).map(|_| UserRange { first, length })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_a_range_for_every_pod_it_takes_and_none_of_the_users_of_the_machine() {
        let ranges: Vec<UserRange> = UserIdRanges::default().ranges().collect();
        assert_eq!(ranges.len(), 126);
        assert!(ranges.iter().all(|range| range.length == 65_536 && range.first >= 1 << 30));
        assert!(ranges.windows(2).all(|pair| pair[1].first - pair[0].first == 65_536));
    }

    #[test]
    fn no_two_nodes_of_a_machine_have_an_id_in_common() {
        let last = |number| UserIdRanges::default().of_node(number).ranges().last().unwrap();
        for number in 1..=128 {
            let first = UserIdRanges::default().of_node(number).ranges().next().unwrap();
            let before = last(number - 1);
            assert_eq!(first.first, before.first + before.length, "node {number}");
        }
        assert!(last(128).first < 1 << 31);
    }

    #[test]
    fn what_does_not_fit_is_no_range() {
        let late = UserIdRanges::new(Some((1 << 32) - 65_536 * 127), None).unwrap();
        assert_eq!(late.ranges().count(), 126);
        assert_eq!(late.of_node(1).ranges().count(), 0);
        let long = UserIdRanges::new(None, Some(65_536 * 100)).unwrap();
        assert_eq!(long.ranges().count(), 1);
    }

    #[test]
    fn numbers_are_those_that_the_kubelet_takes() {
        for (first, per_pod, expected) in [
            (None, None, Ok(UserIdRanges::default())),
            (Some(65_536), Some(131_072), Ok(UserIdRanges { first: 65_536, per_pod: 131_072 })),
            (None, Some(65_535), Err(UserIdsError::PerPod(65_535))),
            (None, Some(0), Err(UserIdsError::PerPod(0))),
            (None, Some(-65_536), Err(UserIdsError::PerPod(-65_536))),
            (None, Some(65_536 * 127), Err(UserIdsError::PerPod(65_536 * 127))),
            (Some(0), None, Err(UserIdsError::First(0))),
            (Some(100_000), None, Err(UserIdsError::First(100_000))),
            (Some((1 << 32) - 65_536), None, Err(UserIdsError::First((1 << 32) - 65_536))),
        ] {
            assert_eq!(UserIdRanges::new(first, per_pod), expected, "{first:?} {per_pod:?}");
        }
    }
}
