//! Amounts of resources by their names: what a list of the API says, to be added up and compared.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use crate::Quantity;

/// A resource name with its amount, as in `limits`.
pub type ResourceList = BTreeMap<String, ApiQuantity>;

/// Amounts by resource name. What is absent is zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts(Vec<(Name, Quantity)>); // few, in the order of their names

/// A resource's name; those that nearly all are need no memory of their own, as a scheduler adds up
/// pod after pod.
type Name = Cow<'static, str>;

fn name_of(text: &str) -> Name {
    match text {
        "cpu" => Cow::Borrowed("cpu"),
        "memory" => Cow::Borrowed("memory"),
        "ephemeral-storage" => Cow::Borrowed("ephemeral-storage"),
        "pods" => Cow::Borrowed("pods"),
        other => Cow::Owned(other.to_owned()),
    }
}

impl Amounts {
    /// Those of a list. What cannot be read counts as absent: validation lets none in.
    pub fn read(list: Option<&ResourceList>) -> Self {
        let read =
            |(name, text): (&String, &ApiQuantity)| Some((name_of(name), text.0.parse().ok()?));
        let mut amounts = Vec::with_capacity(list.map_or(0, BTreeMap::len));
        amounts.extend(list.into_iter().flatten().filter_map(read));
        Self(amounts)
    }

    /// The amount of one resource.
    pub fn get(&self, name: &str) -> Quantity {
        self.place(name).map_or_else(|_| Quantity::default(), |index| self.0[index].1)
    }

    /// Whether it is named, be it with zero.
    pub fn names(&self, name: &str) -> bool {
        self.place(name).is_ok()
    }

    /// All that are named.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_ref(), *amount))
    }

    /// Adds another. What it does not name yet is taken as it is, so that it is written in the same
    /// suffixes.
    pub fn add(&mut self, other: &Self) {
        self.merge(other, Quantity::saturating_add);
    }

    /// Raises each to what the other has of it, where that is more.
    pub fn raise_to(&mut self, other: &Self) {
        self.merge(other, |own, others| if own.millis() < others.millis() { others } else { own });
    }

    /// Takes the other's amounts of what it does not name itself.
    pub(crate) fn fill(mut self, other: &Self) -> Self {
        self.merge(other, |own, _| own);
        self
    }

    /// Takes the other's amounts in place of its own, where the other names them.
    pub(crate) fn replace_by(&mut self, other: &Self) {
        self.merge(other, |_, others| others);
    }

    /// Only those with such a name.
    pub(crate) fn of_names(mut self, wanted: impl Fn(&str) -> bool) -> Self {
        self.0.retain(|(name, _)| wanted(name));
        self
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(own, _)| own.as_ref().cmp(name))
    }

    /// What both name is what `both` makes of it. Nothing is inserted in the middle, as a list of a
    /// manifest may be long.
    fn merge(&mut self, other: &Self, both: impl Fn(Quantity, Quantity) -> Quantity) {
        let mut new = Vec::new();
        for (name, amount) in &other.0 {
            match self.place(name) {
                Ok(index) => self.0[index].1 = both(self.0[index].1, *amount),
                Err(_) => new.push((name.clone(), *amount)),
            }
        }
        if !new.is_empty() {
            self.0.append(&mut new);
            // two sorted runs: one pass
            self.0.sort_by(|(one, _), (other, _)| one.cmp(other));
        }
    }
}

/// Amounts that many containers add to, one after the other: each addition takes as long as what is
/// added, however much there is already.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunningSum(BTreeMap<Name, Quantity>);

impl RunningSum {
    pub(crate) fn get(&self, name: &str) -> Option<Quantity> {
        self.0.get(name).copied()
    }

    /// As [`Amounts::add`].
    pub(crate) fn add(&mut self, other: &Amounts) {
        for (name, amount) in &other.0 {
            let own = self.0.get(name).map(|own| own.saturating_add(*amount));
            self.0.insert(name.clone(), own.unwrap_or(*amount));
        }
    }

    /// As [`Amounts::raise_to`], for one resource.
    pub(crate) fn raise_to(&mut self, name: &str, amount: Quantity) {
        match self.0.get_mut(name) {
            Some(own) if own.millis() < amount.millis() => *own = amount,
            Some(_) => {}
            None => {
                self.0.insert(name_of(name), amount);
            }
        }
    }
}

impl From<RunningSum> for Amounts {
    fn from(sum: RunningSum) -> Self {
        Self(sum.0.into_iter().collect())
    }
}

/// `requests` of what a pod or container is given.
pub(crate) fn requests(resources: Option<&ResourceRequirements>) -> Amounts {
    Amounts::read(resources.and_then(|resources| resources.requests.as_ref()))
}

/// `limits` of what a pod or container is given.
pub(crate) fn limits(resources: Option<&ResourceRequirements>) -> Amounts {
    Amounts::read(resources.and_then(|resources| resources.limits.as_ref()))
}
