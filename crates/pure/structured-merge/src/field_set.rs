//! Sets of fields: what one owner owns.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use crate::path_element::{FieldPath, PathElement, push_json_string};
use crate::schema::TypedSchema;

/// A set of fields of an object, as a tree of steps. It reads and writes the format `FieldsV1`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Sorted by step; none is empty.
    nodes: Vec<FieldNode>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldNode {
    step: PathElement,
    /// Whether the field itself is in the set, and not only fields below it.
    is_member: bool,
    below: FieldSet,
}

impl FieldNode {
    fn is_in_use(&self) -> bool {
        self.is_member || !self.below.is_empty()
    }
}

/// A text that is no set of fields.
#[derive(Debug, thiserror::Error)]
#[error("read fieldsV1: {0}")]
pub struct FieldSetError(#[from] serde_json::Error);

impl FieldSet {
    /// The set of these fields.
    pub fn from_paths(paths: impl IntoIterator<Item = FieldPath>) -> Self {
        let mut set = Self::default();
        paths.into_iter().for_each(|path| set.insert(&path));
        set
    }

    /// Reads `fieldsV1`.
    ///
    /// # Errors
    /// When it is not JSON, or holds a step that is none.
    pub fn from_json(text: &str) -> Result<Self, FieldSetError> {
        Ok(serde_json::from_str(text)?)
    }

    /// Writes `fieldsV1`.
    pub fn to_json(&self) -> String {
        let mut text = String::with_capacity(self.nodes.len() * 64);
        self.write_json(&mut text, Membership::Outside);
        text
    }

    fn write_json(&self, out: &mut String, itself: Membership) {
        out.push('{');
        let mut is_first = itself == Membership::Outside;
        if itself == Membership::Member {
            out.push_str("\".\":{}");
        }
        for node in &self.nodes {
            if !std::mem::take(&mut is_first) {
                out.push(',');
            }
            push_json_string(out, node.step.as_str());
            out.push(':');
            match node.is_member && !node.below.is_empty() {
                true => node.below.write_json(out, Membership::Member),
                false => node.below.write_json(out, Membership::Outside),
            }
        }
        out.push('}');
    }

    /// Whether no field is in it.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether this very field is in it.
    pub fn has(&self, path: &FieldPath) -> bool {
        let Some((last, before)) = path.steps().split_last() else { return false };
        let parent = before.iter().try_fold(self, |set, step| set.below(step));
        parent.is_some_and(|set| set.has_step(last))
    }

    /// Adds a field.
    pub fn insert(&mut self, path: &FieldPath) {
        let Some((last, before)) = path.steps().split_last() else { return };
        let mut set = self;
        for step in before {
            set = &mut set.node_mut(step.clone()).below;
        }
        set.node_mut(last.clone()).is_member = true;
    }

    /// Every field in it, each level before the ones below it, as upstream orders conflicts.
    pub fn paths(&self) -> Vec<FieldPath> {
        let mut found = Vec::new();
        self.collect(&mut Vec::new(), &mut found);
        found
    }

    fn collect(&self, before: &mut Vec<PathElement>, found: &mut Vec<FieldPath>) {
        for node in self.nodes.iter().filter(|node| node.is_member) {
            let steps = before.iter().cloned().chain([node.step.clone()]).collect();
            found.push(FieldPath::new(steps));
        }
        for node in &self.nodes {
            before.push(node.step.clone());
            node.below.collect(before, found);
            before.pop();
        }
    }

    /// The fields in either.
    pub fn union(mut self, other: &Self) -> Self {
        if self.is_empty() {
            return other.clone();
        }
        for theirs in &other.nodes {
            match self.find(&theirs.step) {
                Err(at) => self.nodes.insert(at, theirs.clone()),
                Ok(at) => {
                    let ours = &mut self.nodes[at];
                    ours.is_member |= theirs.is_member;
                    ours.below = std::mem::take(&mut ours.below).union(&theirs.below);
                }
            }
        }
        self
    }

    /// The fields in both.
    pub fn intersection(self, other: &Self) -> Self {
        self.combine(other, |ours, theirs| FieldNode {
            step: ours.step,
            is_member: ours.is_member && theirs.is_some_and(|theirs| theirs.is_member),
            below: theirs.map(|theirs| ours.below.intersection(&theirs.below)).unwrap_or_default(),
        })
    }

    /// Whether a field is in both.
    pub fn intersects(&self, other: &Self) -> bool {
        self.nodes.iter().any(|ours| {
            let theirs = other.find(&ours.step).ok().map(|at| &other.nodes[at]);
            theirs.is_some_and(|theirs| {
                (ours.is_member && theirs.is_member) || ours.below.intersects(&theirs.below)
            })
        })
    }

    /// The fields of this one that are not in the other. A field below one of the other's stays.
    pub fn difference(self, other: &Self) -> Self {
        self.combine(other, |ours, theirs| match theirs {
            None => ours,
            Some(theirs) => FieldNode {
                step: ours.step,
                is_member: ours.is_member && !theirs.is_member,
                below: ours.below.difference(&theirs.below),
            },
        })
    }

    /// The same, also without the fields below those of the other.
    pub fn recursive_difference(self, other: &Self) -> Self {
        self.combine(other, |ours, theirs| match theirs {
            None => ours,
            Some(theirs) if theirs.is_member => {
                FieldNode { step: ours.step, is_member: false, below: Self::default() }
            }
            Some(theirs) => FieldNode {
                step: ours.step,
                is_member: ours.is_member,
                below: ours.below.recursive_difference(&theirs.below),
            },
        })
    }

    fn combine(
        self,
        other: &Self,
        combined: impl Fn(FieldNode, Option<&FieldNode>) -> FieldNode,
    ) -> Self {
        let nodes = self.nodes.into_iter().map(|ours| {
            let theirs = other.find(&ours.step).ok().map(|at| &other.nodes[at]);
            combined(ours, theirs)
        });
        Self { nodes: nodes.filter(FieldNode::is_in_use).collect() }
    }

    /// The same with each declared field that has fields below it. So a struct goes when all that
    /// was in it goes, while a map of labels stays until its keys are gone.
    pub(crate) fn with_declared_parents(&self, schema: TypedSchema<'_>) -> Self {
        let nodes = self.nodes.iter().map(|node| {
            let declared = node.step.field_name().is_some_and(|name| schema.declares(name));
            FieldNode {
                step: node.step.clone(),
                is_member: node.is_member || (declared && !node.below.is_empty()),
                below: node.below.with_declared_parents(schema.at(&node.step)),
            }
        });
        Self { nodes: nodes.collect() }
    }

    /// Whether the field at this step is in it.
    pub(crate) fn has_step(&self, step: &PathElement) -> bool {
        self.find(step).is_ok_and(|at| self.nodes[at].is_member)
    }

    /// What is in it below a step.
    pub(crate) fn below(&self, step: &PathElement) -> Option<&Self> {
        self.find(step).ok().map(|at| &self.nodes[at].below).filter(|below| !below.is_empty())
    }

    /// Adds the field at a step, if it is one, and fields below it.
    pub(crate) fn attach(
        &mut self,
        step: impl FnOnce() -> PathElement,
        itself: Membership,
        below: Self,
    ) {
        if itself == Membership::Outside && below.is_empty() {
            return;
        }
        let node = self.node_mut(step());
        node.is_member |= itself == Membership::Member;
        node.below = match node.below.is_empty() {
            true => below,
            false => std::mem::take(&mut node.below).union(&below),
        };
    }

    fn find(&self, step: &PathElement) -> Result<usize, usize> {
        self.nodes.binary_search_by(|node| node.step.cmp(step))
    }

    fn node_mut(&mut self, step: PathElement) -> &mut FieldNode {
        let comes_last = self.nodes.last().is_none_or(|last| last.step < step);
        let at = match comes_last {
            true => Err(self.nodes.len()),
            false => self.find(&step),
        };
        let at = at.unwrap_or_else(|at| {
            self.nodes.insert(at, FieldNode { step, is_member: false, below: Self::default() });
            at
        });
        &mut self.nodes[at]
    }
}

/// Whether a field is in a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    Member,
    Outside,
}

impl fmt::Display for FieldSet {
    /// One path a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.paths().iter().try_for_each(|path| writeln!(f, "{path}"))
    }
}

/// A set as read, and whether the field that it is below of is a member.
struct ReadNode {
    has_dot: bool,
    set: FieldSet,
}

/// A step as read; none is the dot, which stands for the field itself.
struct StepText(Option<PathElement>);

impl<'de> Deserialize<'de> for StepText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StepVisitor;
        impl Visitor<'_> for StepVisitor {
            type Value = StepText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path element")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<StepText, E> {
                match text {
                    "." => Ok(StepText(None)),
                    _ => PathElement::parse(text).map(Some).map(StepText).map_err(E::custom),
                }
            }
        }
        deserializer.deserialize_str(StepVisitor)
    }
}

impl<'de> Deserialize<'de> for ReadNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NodeVisitor;
        impl<'de> Visitor<'de> for NodeVisitor {
            type Value = ReadNode;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of path elements")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<ReadNode, A::Error> {
                let mut read = ReadNode { has_dot: false, set: FieldSet::default() };
                while let Some(StepText(step)) = fields.next_key()? {
                    let below: ReadNode = fields.next_value()?;
                    let Some(step) = step else {
                        read.has_dot = true;
                        continue;
                    };
                    let node = read.set.node_mut(step);
                    // a field with nothing below it stands for itself
                    node.is_member |= below.has_dot || below.set.is_empty();
                    node.below = match node.below.is_empty() {
                        true => below.set,
                        false => std::mem::take(&mut node.below).union(&below.set),
                    };
                }
                Ok(read)
            }
        }
        deserializer.deserialize_map(NodeVisitor)
    }
}

impl<'de> Deserialize<'de> for FieldSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ReadNode::deserialize(deserializer).map(|read| read.set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> FieldSet {
        FieldSet::from_json(text).unwrap()
    }

    #[test]
    fn the_text_of_a_set_is_that_of_fields_v1() {
        let text = r#"{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:ports":{"k:{\"port\":80}":{".":{},"f:name":{}}}}}"#;
        assert_eq!(set(text).to_json(), text);
        let paths: Vec<_> = set(text).paths().iter().map(ToString::to_string).collect();
        assert_eq!(
            paths,
            [
                ".metadata.labels",
                ".metadata.labels.app",
                ".spec.ports[port=80]",
                ".spec.ports[port=80].name"
            ]
        );
        assert_eq!(set("{}").to_json(), "{}");
    }

    #[test]
    fn sets_combine_field_by_field() {
        let (a, b) =
            (set(r#"{"f:a":{".":{},"f:x":{}},"f:b":{}}"#), set(r#"{"f:a":{"f:x":{}},"f:c":{}}"#));
        assert_eq!(a.clone().union(&b), set(r#"{"f:a":{".":{},"f:x":{}},"f:b":{},"f:c":{}}"#));
        assert_eq!(a.clone().intersection(&b), set(r#"{"f:a":{"f:x":{}}}"#));
        assert_eq!(a.clone().difference(&b), set(r#"{"f:a":{},"f:b":{}}"#));
        assert_eq!(
            b.clone().difference(&set(r#"{"f:a":{}}"#)),
            b,
            "a field below another one stays"
        );
        assert_eq!(b.clone().recursive_difference(&set(r#"{"f:a":{}}"#)), set(r#"{"f:c":{}}"#));
        assert!(a.intersects(&b) && !a.intersects(&set(r#"{"f:a":{"f:y":{}}}"#)));
        assert!(a.clone().difference(&a).is_empty());
    }

    #[test]
    fn what_is_no_set_is_refused() {
        for text in ["", "[]", "3", r#"{"a":{}}"#, r#"{"f:a":3}"#, r#"{"f:a":null}"#] {
            assert!(FieldSet::from_json(text).is_err(), "{text}");
        }
    }
}
