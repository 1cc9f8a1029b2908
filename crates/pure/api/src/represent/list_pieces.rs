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
    /// What stands after them.
    end: &'static [u8],
    bytes_left: usize,
}

/// One item.
pub(super) enum ListItem {
    /// As it is stored, without so many bytes at its head: items of a list say less there.
    Stored(Arc<StoredObject>, usize),
    /// A text made for the list.
    Made(Bytes),
}

impl ListItem {
    fn len(&self) -> usize {
        match self {
            Self::Stored(object, 0) => object.value.len(),
            Self::Stored(object, without) => 1 + object.value.len() - without,
            Self::Made(text) => text.len(),
        }
    }

    fn write(&self, text: &mut Vec<u8>) {
        match self {
            Self::Stored(object, 0) => text.extend_from_slice(&object.value),
            Self::Stored(object, without) => {
                text.push(b'{');
                text.extend_from_slice(&object.value[*without..]);
            }
            Self::Made(made) => text.extend_from_slice(made),
        }
    }
}

impl ListPieces {
    /// `head` goes up to the first item. It is not empty.
    pub(super) fn of_items(head: Vec<u8>, items: Vec<ListItem>) -> Self {
        let end = b"]}";
        let commas = items.len().saturating_sub(1);
        let of_items: usize = items.iter().map(ListItem::len).sum();
        let bytes_left = head.len() + of_items + commas + end.len();
        Self { head: head.into(), items: items.into_iter(), end, bytes_left }
    }

    /// One that was made as a whole.
    pub(super) fn whole(text: Bytes) -> Self {
        let bytes_left = text.len();
        Self { head: text, items: Vec::new().into_iter(), end: b"", bytes_left }
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
        let mut is_first = !piece.is_empty();
        piece.reserve(self.bytes_left.min(bytes.saturating_add(ITEM_BYTES)) - piece.len());
        while piece.len() < bytes {
            let Some(item) = self.items.next() else {
                piece.extend_from_slice(self.end);
                break;
            };
            if !is_first {
                piece.push(b',');
            }
            is_first = false;
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

    fn item(text: String) -> ListItem {
        ListItem::Made(text.into())
    }

    proptest! {
        #[test]
        fn pieces_of_any_size_are_the_text_and_its_length_is_known_before(
            texts in prop::collection::vec("[a-z]{0,40}", 0..20),
            bytes in 1_usize..100,
        ) {
            let list = || {
                ListPieces::of_items(b"[".to_vec(), texts.iter().cloned().map(item).collect())
            };
            let whole = list().into_bytes();
            let expected = format!("[{}]}}", texts.join(","));
            prop_assert_eq!(&*whole, expected.as_bytes());
            let (mut list, mut text) = (list(), Vec::new());
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
