//! Names with small numbers, so that what is counted by name can be counted in a table.

use std::collections::BTreeMap;

/// The names that are in use, each with a number of its own. That of a name that nobody uses any
/// more is given to another.
#[derive(Clone, Debug, Default)]
pub(super) struct NameNumbers {
    taken: BTreeMap<String, AssignedNumber>,
    free: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
struct AssignedNumber {
    number: usize,
    users: usize,
}

impl NameNumbers {
    /// The number of a name that one more uses.
    pub(super) fn take(&mut self, name: &str) -> usize {
        if let Some(taken) = self.taken.get_mut(name) {
            taken.users += 1;
            return taken.number;
        }
        // those below are all taken when none is free
        let number = self.free.pop().unwrap_or(self.taken.len());
        self.taken.insert(name.to_owned(), AssignedNumber { number, users: 1 });
        number
    }

    /// One of those who use it does no longer.
    pub(super) fn give_back(&mut self, name: &str) {
        let Some(taken) = self.taken.get_mut(name) else { return };
        taken.users -= 1;
        if taken.users == 0 {
            self.free.push(taken.number);
            self.taken.remove(name);
        }
    }

    /// The number of a name, if it is in use.
    pub(super) fn of(&self, name: &str) -> Option<usize> {
        self.taken.get(name).map(|taken| taken.number)
    }

    /// The same, with the name as it is kept here.
    pub(super) fn get(&self, name: &str) -> Option<(&str, usize)> {
        self.taken.get_key_value(name).map(|(name, taken)| (name.as_str(), taken.number))
    }

    /// All names in use, in order, with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, usize)> {
        self.taken.iter().map(|(name, taken)| (name.as_str(), taken.number))
    }

    /// All numbers are below this.
    pub(super) fn bound(&self) -> usize {
        self.taken.len() + self.free.len()
    }
}

/// Which number a name has tells only in which order they came.
#[cfg(test)]
impl PartialEq for NameNumbers {
    fn eq(&self, other: &Self) -> bool {
        let users = |(name, taken): (&String, &AssignedNumber)| (name.clone(), taken.users);
        self.taken.iter().map(users).eq(other.taken.iter().map(users))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number_while_it_is_used_and_numbers_stay_small() {
        let mut numbers = NameNumbers::default();
        assert_eq!(["a", "b", "a", "c"].map(|name| numbers.take(name)), [0, 1, 0, 2]);
        numbers.give_back("a");
        assert_eq!(numbers.of("a"), Some(0), "one still uses it");
        numbers.give_back("a");
        assert_eq!(numbers.of("a"), None);
        assert_eq!((numbers.bound(), numbers.take("d"), numbers.take("e")), (3, 0, 3));
        assert_eq!(numbers.iter().collect::<Vec<_>>(), [("b", 1), ("c", 2), ("d", 0), ("e", 3)]);
        numbers.give_back("unknown");
        assert_eq!(numbers.bound(), 4);
    }
}
