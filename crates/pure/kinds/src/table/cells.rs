//! Columns and cells that many tables share.

use std::borrow::Cow;

use crate::registry::resource::{TableCell, TableColumn};

/// The name column.
pub const NAME: TableColumn = TableColumn {
    name: Cow::Borrowed("Name"),
    type_: Cow::Borrowed("string"),
    format: Cow::Borrowed("name"),
    description: Cow::Borrowed("Name must be unique within a namespace."),
    priority: 0,
};

/// The age column.
pub const AGE: TableColumn = column(
    "Age",
    "string",
    "CreationTimestamp is a timestamp representing the server time when this object was created.",
);

/// The column of kinds that show when they were made, not how long ago.
pub const CREATED_AT: TableColumn = column(
    "Created At",
    "date",
    "CreationTimestamp is a timestamp representing the server time when this object was created.",
);

/// A column that is always shown.
pub const fn column(
    name: &'static str,
    type_: &'static str,
    description: &'static str,
) -> TableColumn {
    labelled(name, type_, description, 0)
}

/// A column of `-o wide`.
pub const fn wide(
    name: &'static str,
    type_: &'static str,
    description: &'static str,
) -> TableColumn {
    labelled(name, type_, description, 1)
}

const fn labelled(
    name: &'static str,
    type_: &'static str,
    description: &'static str,
    priority: i32,
) -> TableColumn {
    TableColumn {
        name: Cow::Borrowed(name),
        type_: Cow::Borrowed(type_),
        format: Cow::Borrowed(""),
        description: Cow::Borrowed(description),
        priority,
    }
}

/// The text, or `<none>` where there is none.
pub fn or_none(value: Option<&String>) -> TableCell {
    TableCell::Text(value.filter(|text| !text.is_empty()).cloned().unwrap_or("<none>".to_owned()))
}

/// The text, or `<unset>` where there is none.
pub fn or_unset(value: Option<&String>) -> TableCell {
    TableCell::Text(value.filter(|text| !text.is_empty()).cloned().unwrap_or("<unset>".to_owned()))
}

/// The texts with commas between them, or `<none>`.
pub fn list_or_none<'a>(values: impl IntoIterator<Item = &'a str>) -> String {
    let values: Vec<&str> = values.into_iter().collect();
    if values.is_empty() { "<none>".to_owned() } else { values.join(",") }
}

impl From<String> for TableCell {
    fn from(text: String) -> Self {
        TableCell::Text(text)
    }
}

impl From<&str> for TableCell {
    fn from(text: &str) -> Self {
        TableCell::Text(text.to_owned())
    }
}

impl From<i32> for TableCell {
    fn from(number: i32) -> Self {
        TableCell::Int(number.into())
    }
}
