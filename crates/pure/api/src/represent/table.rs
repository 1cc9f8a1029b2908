//! Server-side tables (meta.k8s.io/v1 `Table`): what `kubectl get` prints.

use bytes::Bytes;
use rekindle_kinds::registry::{KindEntry, TableCell, TableColumn};
use rekindle_types::Tick;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::{ListMeta, metadata_only, shown, to_json};
use crate::request::{IncludeObject, MetaVersion};
use crate::status::ApiError;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TableDocument<'a> {
    kind: &'a str,
    api_version: &'a str,
    metadata: &'a ListMeta,
    /// None, which is null, where the client has them already.
    column_definitions: Option<Vec<ColumnDefinition<'a>>>,
    rows: Vec<TableRow>,
}

#[derive(Serialize)]
struct ColumnDefinition<'a> {
    name: &'a str,
    #[serde(rename = "type")]
    type_: &'a str,
    format: &'a str,
    description: &'a str,
    priority: i32,
}

#[derive(Serialize)]
struct TableRow {
    cells: Vec<Box<RawValue>>,
    /// None, which is null, where the client wants no objects.
    object: Option<Box<RawValue>>,
}

impl<'a> From<&'a TableColumn> for ColumnDefinition<'a> {
    fn from(column: &'a TableColumn) -> Self {
        Self {
            name: &column.name,
            type_: &column.type_,
            format: &column.format,
            description: &column.description,
            priority: column.priority,
        }
    }
}

/// Whether a table shows its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableColumns {
    /// It does.
    Shown,
    /// The client of a watch has had them with the first event.
    Known,
}

/// The columns of a kind as JSON.
pub(super) fn columns_json(entry: &KindEntry) -> String {
    serde_json::to_string(&columns(entry)).expect("columns are plain texts and numbers")
}

fn columns(entry: &KindEntry) -> Vec<ColumnDefinition<'_>> {
    entry.columns.iter().map(ColumnDefinition::from).collect()
}

/// A table of these objects, given as JSON.
pub(super) fn table(
    entry: &KindEntry,
    meta: &ListMeta,
    (include, version): (IncludeObject, MetaVersion),
    objects: &[Bytes],
    (now, columns_of): (Tick, TableColumns),
) -> Result<Bytes, ApiError> {
    let rows = objects
        .iter()
        .map(|json| row(entry, (include, version), json, now))
        .collect::<Result<_, _>>()?;
    let table = TableDocument {
        kind: "Table",
        api_version: version.api_version(),
        metadata: meta,
        column_definitions: match columns_of {
            TableColumns::Shown => Some(columns(entry)),
            TableColumns::Known => None,
        },
        rows,
    };
    Ok(to_json(&table)?.into())
}

fn row(
    entry: &KindEntry,
    (include, version): (IncludeObject, MetaVersion),
    json: &Bytes,
    now: Tick,
) -> Result<TableRow, ApiError> {
    let object = entry
        .codec
        .decode_stored(json)
        .map_err(|error| ApiError::internal(format!("read a stored {}: {error}", entry.kind)))?;
    let cells = object.row(now).into_iter().map(cell).collect::<Result<_, _>>()?;
    let object = match include {
        IncludeObject::Metadata => Some(raw(metadata_only(entry, json, version)?)?),
        IncludeObject::Object => Some(raw(shown(entry, json)?.to_vec())?),
        IncludeObject::None => None,
    };
    Ok(TableRow { cells, object })
}

fn cell(cell: TableCell) -> Result<Box<RawValue>, ApiError> {
    match cell {
        TableCell::Text(text) => to_raw_value(&text),
        TableCell::Int(number) => to_raw_value(&number),
        TableCell::Json(value) => to_raw_value(&value),
    }
    .map_err(ApiError::internal)
}

fn raw(json: Vec<u8>) -> Result<Box<RawValue>, ApiError> {
    let text = String::from_utf8(json).map_err(ApiError::internal)?;
    RawValue::from_string(text).map_err(ApiError::internal)
}
