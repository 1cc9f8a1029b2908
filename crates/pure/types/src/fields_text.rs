//! Writes the fields of managedFields.
//!
//! An object may have hundreds of them, and as a tree each takes more memory than the rest of the
//! object. So each `metadata.managedFields[].fieldsV1` is kept as one text, and only its JSON form
//! shows what the text says.

use std::io::{Result, Write};

use serde_json::ser::{CharEscape, Formatter};

/// The way to the fields: the depth of the object that has the key, and the key.
const WAY: [(u32, &str); 3] = [(1, "metadata"), (2, "managedFields"), (4, "fieldsV1")];

/// Writes JSON without spaces, and a `fieldsV1` that is a text as the JSON in it.
#[derive(Debug, Default)]
pub(crate) struct FieldsText {
    /// Open objects and lists.
    depth: u32,
    /// How far along the way the current value lies.
    on_way: usize,
    /// Whether the next text is a key that may lead on.
    is_key: bool,
    /// Whether the current text is written as it is.
    is_raw: bool,
}

impl FieldsText {
    /// For metadata that is written without the object around it.
    pub(crate) fn in_metadata() -> Self {
        Self { depth: 1, on_way: 1, ..Self::default() }
    }
}

impl Formatter for FieldsText {
    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        self.depth += 1;
        writer.write_all(b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        self.depth -= 1;
        writer.write_all(b"}")
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        self.depth += 1;
        writer.write_all(b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        self.depth -= 1;
        writer.write_all(b"]")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> Result<()> {
        while self.on_way > 0 && WAY[self.on_way - 1].0 >= self.depth {
            self.on_way -= 1;
        }
        self.is_key = WAY.get(self.on_way).is_some_and(|(depth, _)| *depth == self.depth);
        if first { Ok(()) } else { writer.write_all(b",") }
    }

    fn end_object_key<W: ?Sized + Write>(&mut self, _writer: &mut W) -> Result<()> {
        self.is_key = false;
        Ok(())
    }

    fn begin_string<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        self.is_raw = self.on_way == WAY.len() && self.depth == 4 && !self.is_key;
        if self.is_raw { Ok(()) } else { writer.write_all(b"\"") }
    }

    fn end_string<W: ?Sized + Write>(&mut self, writer: &mut W) -> Result<()> {
        if std::mem::take(&mut self.is_raw) { Ok(()) } else { writer.write_all(b"\"") }
    }

    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> Result<()> {
        if self.is_key && WAY[self.on_way].1 == fragment {
            self.on_way += 1;
            self.is_key = false;
        }
        writer.write_all(fragment.as_bytes())
    }

    fn write_char_escape<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> Result<()> {
        match escape {
            CharEscape::Quote if self.is_raw => writer.write_all(b"\""),
            CharEscape::ReverseSolidus if self.is_raw => writer.write_all(b"\\"),
            other => serde_json::ser::CompactFormatter.write_char_escape(writer, other),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    use serde_json::{Value, json};

    use crate::ObjectJson;

    fn written(object: &Value) -> Value {
        let object: ConfigMap = serde_json::from_value(object.clone()).unwrap();
        serde_json::from_slice(&object.to_json()).unwrap()
    }

    #[test]
    fn only_the_fields_of_entries_are_written_as_they_are() {
        let fields = r#"{"f:data":{".":{},"f:a\"b":{},"k:{\"name\":\"x\\\\\"}":{}}}"#;
        let entry = |fields: Value| json!({"manager": "fieldsV1", "fieldsV1": fields});
        let object = |fields: Value| {
            json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "data": {"fieldsV1": "{}", "metadata": "managedFields"},
                "metadata": {
                    "annotations": {"fieldsV1": "{}", "managedFields": "x"},
                    "managedFields": [entry(fields.clone()), entry(json!({})), entry(fields)],
                    "name": "fieldsV1",
                },
            })
        };
        let tree: Value = serde_json::from_str(fields).unwrap();
        assert_eq!(written(&object(json!(fields))), object(tree.clone()));
        assert_eq!(written(&object(tree.clone())), object(tree));
    }

    #[test]
    fn the_fields_of_a_pod_are_written_as_they_are_whatever_its_conditions_lack() {
        let entry = |fields: Value| json!([{"manager": "x", "fieldsV1": fields}]);
        let with = |condition: Value, fields: Value| {
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "web", "managedFields": entry(fields)},
                "status": {"conditions": [condition]},
            })
        };
        let (text, tree) = (json!("{\"f:spec\":{}}"), json!({"f:spec": {}}));
        let time = "2026-11-27T09:00:00Z";
        for condition in [
            json!({"type": "Ready", "status": "True"}),
            json!({
                "type": "Ready", "status": "True", "lastProbeTime": time, "lastTransitionTime": time,
            }),
        ] {
            let pod: Pod = serde_json::from_value(with(condition, text.clone())).unwrap();
            let written: Value = serde_json::from_slice(&pod.to_json()).unwrap();
            assert_eq!(written["metadata"]["managedFields"], entry(tree.clone()));
        }
    }
}
