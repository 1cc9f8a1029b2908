//! The table columns of a version.

use std::borrow::Cow;
use std::sync::LazyLock;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionVersion;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use rekindle_kinds::registry::{TableCell, TableColumn};
use rekindle_kinds::table::{self, column};
use rekindle_kinds::validation::text;
use rekindle_types::Tick;
use serde_json::Value;

use rekindle_kinds::custom_resource_definition::json_path::{self, JsonPath};

/// The path of the column that a version without columns gets.
const CREATED: &str = ".metadata.creationTimestamp";

/// How the cells of a column are found.
pub(super) struct ColumnCells {
    path: JsonPath,
    type_: ColumnType,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnType {
    Text,
    Integer,
    Number,
    Boolean,
    Date,
}

impl ColumnType {
    /// Of a name that was checked.
    fn parse(name: &str) -> Self {
        match name {
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            "date" => Self::Date,
            _ => Self::Text,
        }
    }
}

/// The name, then what the definition says; the age where it says nothing.
pub(super) fn of_version(version: &CustomResourceDefinitionVersion) -> Vec<TableColumn> {
    let mut columns = vec![TableColumn { description: documented("name"), ..table::NAME }];
    let own = version.additional_printer_columns.iter().flatten().map(|column| TableColumn {
        name: column.name.clone().into(),
        type_: column.type_.clone().into(),
        format: text(column.format.as_ref()).to_owned().into(),
        description: match text(column.description.as_ref()) {
            "" => Cow::Owned(format!(
                "Custom resource definition column (in JSONPath format): {}",
                column.json_path
            )),
            said => Cow::Owned(said.to_owned()),
        },
        priority: column.priority.unwrap_or(0),
    });
    columns.extend(own);
    if columns.len() == 1 {
        let age = column("Age", "date", "");
        columns.push(TableColumn { description: documented("creationTimestamp"), ..age });
    }
    columns
}

/// What the API reference says of a field of the metadata.
fn documented(field: &str) -> Cow<'static, str> {
    static METADATA: LazyLock<Value> = LazyLock::new(|| {
        let mut generator = schemars::SchemaGenerator::default();
        generator.root_schema_for::<ObjectMeta>().to_value()
    });
    let text = METADATA["properties"][field]["description"].as_str();
    Cow::Borrowed(text.unwrap_or_default())
}

/// How the cells after the name are found, of a version as JSON.
pub(super) fn cells_of_version(version: &Value) -> Result<Vec<ColumnCells>, String> {
    let columns = version["additionalPrinterColumns"].as_array().map_or(&[][..], Vec::as_slice);
    let cells = |path: &str, type_: &str| {
        Ok(ColumnCells { path: json_path::read(path)?, type_: ColumnType::parse(type_) })
    };
    if columns.is_empty() {
        return Ok(vec![cells(CREATED, "date")?]);
    }
    let text = |column: &Value, field: &str| column[field].as_str().unwrap_or_default().to_owned();
    columns.iter().map(|column| cells(&text(column, "jsonPath"), &text(column, "type"))).collect()
}

impl ColumnCells {
    /// The cell of an object; null where the value is missing or of another type.
    pub(super) fn cell(&self, object: &Value, now: Tick) -> TableCell {
        let Some(first) = self.path.value(object) else { return TableCell::Json(Value::Null) };
        let cell = match self.type_ {
            ColumnType::Text => Some(Value::String(shown(first))),
            ColumnType::Integer => whole(first).map(Value::from),
            ColumnType::Number => first.as_f64().map(|_| first.clone()),
            ColumnType::Boolean => first.as_bool().map(Value::Bool),
            ColumnType::Date => first.as_str().map(|text| Value::String(age(text, now))),
        };
        TableCell::Json(cell.unwrap_or_default())
    }
}

fn whole(number: &Value) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "a fraction is cut off, as upstream")]
    number.as_i64().or_else(|| number.as_f64().map(|number| number as i64))
}

/// How long ago a time was; upstream's word where the text is no time.
fn age(text: &str, now: Tick) -> String {
    match text.parse::<Timestamp>() {
        Ok(time) => table::age(Some(&Time(time)), now),
        Err(_) => "<invalid>".to_owned(),
    }
}

/// A text as it is, all else as JSON.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
