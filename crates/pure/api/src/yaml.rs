//! Answers in YAML, made of their JSON.

use serde_json::Value;
use serde_transcode::Transcoder;

/// An object in JSON as YAML. Texts that a reader of YAML 1.1 would take for something else are
/// quoted. No tree is made of the object: it may be a list of 10,000 pods.
///
/// # Errors
/// When it is no JSON.
pub(crate) fn of_json(json: &[u8]) -> Result<String, serde_saphyr::ser::Error> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let mut text = String::new();
    serde_saphyr::to_fmt_writer_with_options(&mut text, &Transcoder::new(&mut reader), options)?;
    Ok(text)
}

/// What an answer in YAML says. It is one of ours, so its size has no limit.
///
/// # Errors
/// When it is no YAML.
pub(crate) fn read(text: &[u8]) -> Result<Value, serde_saphyr::Error> {
    let options = serde_saphyr::options! { budget: None };
    serde_saphyr::from_slice_with_options(text, options)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn values() -> impl Strategy<Value = Value> {
        let numbers = prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e300..1e300).prop_map(Value::from),
        ];
        let looks_like_more = prop::sample::select(vec![
            "",
            "true",
            "no",
            "Y",
            "null",
            "~",
            "0x10",
            "1e3",
            "1_000",
            "12:30:45",
            "2024-01-01",
            ".5",
            ".nan",
            "-",
            "- x",
            "a: b",
            "#c",
            "x #c",
            "&a",
            "*a",
            "!t",
            "|",
            "{}",
            " lead",
            "trail ",
            "a\nb",
            "a\n\n",
            "\n\na",
            "a\r\nb",
            "a\tb",
            "\u{1}",
            "\u{85}",
            "\u{feff}x",
            "---",
        ]);
        let texts = prop_oneof![looks_like_more.prop_map(str::to_owned), any::<String>()];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            numbers,
            texts.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 60, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::hash_map(texts.clone(), inner, 0..6)
                    .prop_map(|fields| fields.into_iter().collect::<Value>()),
            ]
        })
    }

    proptest! {
        #[test]
        fn yaml_says_what_the_json_says(value in values()) {
            let json = json!({ "value": value }).to_string();
            let text = of_json(json.as_bytes()).unwrap();
            // serde_json reads a long fraction to within its last digit
            let object: Value = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(read(text.as_bytes()).unwrap(), object, "{}", text);
        }
    }

    #[test]
    fn texts_that_look_like_more_are_quoted() {
        let json = br#"{"kind":"ConfigMap","data":{"a":"1","b":"on"},"list":[{"k":1},[]],"m":{}}"#;
        let expected =
            "kind: ConfigMap\ndata:\n  a: \"1\"\n  b: \"on\"\nlist:\n- k: 1\n- []\nm: {}\n";
        assert_eq!(of_json(json).unwrap(), expected);
        assert!(of_json(b"{").is_err());
    }
}
