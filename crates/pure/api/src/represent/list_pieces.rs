//! The text of a list, made piece by piece as the client takes it. Thousands of objects are never
//! copied into one text of all, and the first piece is on its way before the last one is made.

use std::sync::Arc;

use bytes::Bytes;
use rekindle_store::StoredObject;

/// What a piece may have beyond what was asked for, without being moved: most items are smaller.
const ITEM_BYTES: usize = 8 * 1024;

/// The text of a list that is not made yet. It holds the objects until they are in a piece.
pub struct ListPieces {
    /// What stands before the items; empty once pieces have it.
    head: Bytes,
    items: std::vec::IntoIter<ListItem>,
    /// What stands before the next of them: nothing before the first.
    before_next: &'static [u8],
    between: &'static [u8],
    /// What stands after all.
    end: &'static [u8],
    bytes_left: usize,
}

/// One item.
pub(super) struct ListItem {
    text: ItemText,
    /// How many bytes of its text the list leaves out: those after the opening brace of its head.
    left_out: usize,
}

/// What an item is made of.
pub(super) enum ItemText {
    /// As it is stored.
    Stored(Arc<StoredObject>),
    /// Made for the list.
    Made(Bytes),
    /// In protobuf, with what stands before it there.
    Message(Arc<[u8]>),
}

impl ItemText {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Stored(object) => &object.value,
            Self::Made(text) => text,
            Self::Message(message) => message,
        }
    }
}

impl ListItem {
    /// `head`: what its text may begin with and items do not say, with the brace before it; empty
    /// when an item says all.
    pub(super) fn new(text: ItemText, head: &str) -> Self {
        let begins_so = text.bytes().starts_with(head.as_bytes());
        let left_out = if begins_so { head.len().saturating_sub(1) } else { 0 };
        Self { text, left_out }
    }

    pub(super) fn len(&self) -> usize {
        self.text.bytes().len() - self.left_out
    }

    fn write(&self, to: &mut Vec<u8>) {
        let text = self.text.bytes();
        let (brace, rest) = text.split_at(text.len().min(1));
        to.extend_from_slice(brace);
        to.extend_from_slice(&rest[self.left_out..]);
    }
}

impl ListPieces {
    /// In JSON. `head` goes up to the first item.
    pub(super) fn of_items(head: Vec<u8>, items: Vec<ListItem>) -> Self {
        Self::with(head, items, b",", b"]}")
    }

    /// In protobuf. `head` goes up to the first item; `end` follows the last one.
    pub(super) fn of_messages(head: Vec<u8>, items: Vec<ListItem>, end: &'static [u8]) -> Self {
        Self::with(head, items, b"", end)
    }

    fn with(
        head: Vec<u8>,
        items: Vec<ListItem>,
        between: &'static [u8],
        end: &'static [u8],
    ) -> Self {
        let of_items: usize = items.iter().map(ListItem::len).sum();
        let of_all_between = between.len() * items.len().saturating_sub(1);
        let bytes_left = head.len() + of_items + of_all_between + end.len();
        let (head, items) = (head.into(), items.into_iter());
        Self { head, items, before_next: b"", between, end, bytes_left }
    }

    /// One that was made as a whole.
    pub(super) fn whole(text: Bytes) -> Self {
        let bytes_left = text.len();
        Self { head: text, bytes_left, ..Self::with(Vec::new(), Vec::new(), b"", b"") }
    }

    /// How many bytes no piece has had yet.
    pub fn bytes_left(&self) -> usize {
        self.bytes_left
    }

    /// The next piece, of about so many bytes; none at the end.
    pub fn next_piece(&mut self, bytes: usize) -> Option<Bytes> {
        if self.bytes_left == 0 {
            return None;
        }
        if self.head.len() > bytes {
            self.bytes_left -= bytes;
            return Some(self.head.split_to(bytes));
        }
        let mut piece = Vec::from(std::mem::take(&mut self.head));
        piece.reserve(self.bytes_left.min(bytes.saturating_add(ITEM_BYTES)) - piece.len());
        while piece.len() < bytes {
            let Some(item) = self.items.next() else {
                piece.extend_from_slice(self.end);
                break;
            };
            piece.extend_from_slice(self.before_next);
            self.before_next = self.between;
            item.write(&mut piece);
        }
        self.bytes_left -= piece.len();
        Some(piece.into())
    }

    /// All of it.
    pub fn into_bytes(mut self) -> Bytes {
        self.next_piece(usize::MAX).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(texts: &[String], in_protobuf: bool) -> (ListPieces, String) {
        let bytes = |text: &String| text.clone().into_bytes();
        if in_protobuf {
            let item = |text| ListItem::new(ItemText::Message(bytes(text).into()), "");
            let items = texts.iter().map(item).collect();
            let expected = format!("<{}>", texts.concat());
            (ListPieces::of_messages(b"<".to_vec(), items, b">"), expected)
        } else {
            let item = |text| ListItem::new(ItemText::Made(bytes(text).into()), "");
            let items = texts.iter().map(item).collect();
            let expected = format!("[{}]}}", texts.join(","));
            (ListPieces::of_items(b"[".to_vec(), items), expected)
        }
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_are_the_text_and_its_length_is_known_before(
            texts in prop::collection::vec("[a-z]{0,40}", 0..20),
            in_protobuf: bool,
            bytes in 1_usize..100,
        ) {
            let (whole, expected) = list(&texts, in_protobuf);
            let whole = whole.into_bytes();
            prop_assert_eq!(&*whole, expected.as_bytes());
            let (mut list, mut text) = (list(&texts, in_protobuf).0, Vec::new());
            while let Some(piece) = list.next_piece(bytes) {
                prop_assert!(!piece.is_empty());
                text.extend_from_slice(&piece);
                prop_assert_eq!(list.bytes_left(), whole.len() - text.len());
            }
            prop_assert_eq!(text, whole);
        }
    }

    #[test]
    fn a_text_that_was_made_as_a_whole_is_handed_on_in_pieces_too() {
        let mut list = ListPieces::whole("{}".into());
        assert_eq!((list.bytes_left(), list.next_piece(1)), (2, Some("{".into())));
        assert_eq!((list.bytes_left(), list.next_piece(1)), (1, Some("}".into())));
        assert_eq!(list.next_piece(1), None);
    }
}
