//! Numbers for what several pods share, given out as long as one of them has it.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

/// The number of a class.
pub type ClassNumber = NonZeroU32;

/// Values in use, each with its number and by how many it is used.
#[derive(Clone, Debug)]
pub(crate) struct Numbered<T> {
    numbers: BTreeMap<T, (ClassNumber, usize)>,
    values: BTreeMap<ClassNumber, T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { numbers: BTreeMap::new(), values: BTreeMap::new() }
    }
}

/// Whether the value was in use, or is still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OtherUse {
    Yes,
    No,
}

impl<T: Clone + Ord> Numbered<T> {
    /// Uses the value once more.
    pub(crate) fn acquire(&mut self, value: &T) -> (ClassNumber, OtherUse) {
        if let Some((number, uses)) = self.numbers.get_mut(value) {
            *uses += 1;
            return (*number, OtherUse::Yes);
        }
        let number = self.free_number();
        self.numbers.insert(value.clone(), (number, 1));
        self.values.insert(number, value.clone());
        (number, OtherUse::No)
    }

    /// Uses the value once less. Answers it when that was the last use.
    pub(crate) fn release(&mut self, number: ClassNumber) -> Option<T> {
        let (_, uses) = self.numbers.get_mut(self.values.get(&number)?)?;
        *uses -= 1;
        if *uses > 0 {
            return None;
        }
        let value = self.values.remove(&number)?;
        self.numbers.remove(&value);
        Some(value)
    }

    pub(crate) fn get(&self, number: ClassNumber) -> Option<&T> {
        self.values.get(&number)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ClassNumber, &T)> {
        self.values.iter().map(|(number, value)| (*number, value))
    }

    /// Above all in use; from the start again when there is none above.
    fn free_number(&self) -> ClassNumber {
        let above = self
            .values
            .last_key_value()
            .map_or(Some(ClassNumber::MIN), |(last, _)| last.checked_add(1));
        above.unwrap_or_else(|| {
            let mut number = ClassNumber::MIN;
            while self.values.contains_key(&number) {
                number = number.checked_add(1).expect("there are fewer pods than numbers");
            }
            number
        })
    }
}
