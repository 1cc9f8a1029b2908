//! A value of JSON that is looked at without a copy: in a tree, or in a text.
//!
//! A text is first cut into tokens, which stand in one list: a tree would take a list for each
//! object, and a text of its own for each name.

use std::borrow::Cow;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Error, Map, Number, Value};

/// Bytes of a text for each token, at least, as a rule.
const TOKEN_BYTES: usize = 8;

/// The tokens of a text.
pub(crate) struct JsonTokens<'t>(Vec<JsonToken<'t>>);

#[derive(Debug)]
pub(crate) enum JsonToken<'t> {
    Null,
    Bool(bool),
    Number(Number),
    Text(Cow<'t, str>),
    /// With how many of the tokens that follow are its items.
    List(usize),
    /// With how many of the tokens that follow are its fields: each a name, which is a text, and a
    /// value.
    Object(usize),
}

impl<'t> JsonTokens<'t> {
    /// Those of a text that is one value.
    ///
    /// # Errors
    /// When it is not JSON.
    pub(crate) fn read(text: &'t str) -> Result<Self, Error> {
        let mut tokens = Vec::with_capacity(text.len() / TOKEN_BYTES + 1);
        let mut reader = serde_json::Deserializer::from_str(text);
        Tokeniser(&mut tokens).deserialize(&mut reader)?;
        reader.end()?;
        Ok(Self(tokens))
    }

    /// The value.
    pub(crate) fn root(&self) -> JsonNode<'_> {
        JsonNode::Tokens(&self.0)
    }
}

/// A value: one of a tree, or one of tokens, which come first.
#[derive(Clone, Copy, Debug)]
pub(crate) enum JsonNode<'v> {
    Tree(&'v Value),
    Tokens(&'v [JsonToken<'v>]),
}

/// What a value is.
pub(crate) enum JsonShape<'v> {
    Null,
    Bool(bool),
    Number(&'v Number),
    Text(&'v str),
    List(JsonItems<'v>),
    Object(JsonFields<'v>),
}

/// The items of a list, in order.
#[derive(Debug)]
pub(crate) enum JsonItems<'v> {
    Tree(std::slice::Iter<'v, Value>),
    Tokens(&'v [JsonToken<'v>]),
}

/// The names and values of an object.
#[derive(Debug)]
pub(crate) enum JsonFields<'v> {
    Tree(serde_json::map::Iter<'v>),
    Tokens(&'v [JsonToken<'v>]),
}

impl<'v> JsonNode<'v> {
    pub(crate) fn shape(self) -> JsonShape<'v> {
        match self {
            Self::Tree(Value::Null) => JsonShape::Null,
            Self::Tree(Value::Bool(value)) => JsonShape::Bool(*value),
            Self::Tree(Value::Number(number)) => JsonShape::Number(number),
            Self::Tree(Value::String(text)) => JsonShape::Text(text),
            Self::Tree(Value::Array(items)) => JsonShape::List(JsonItems::Tree(items.iter())),
            Self::Tree(Value::Object(fields)) => JsonShape::Object(JsonFields::Tree(fields.iter())),
            Self::Tokens([first, rest @ ..]) => first.shape(rest),
            // only the end of a list has no token
            Self::Tokens([]) => JsonShape::Null,
        }
    }

    /// Its fields, if it is an object.
    pub(crate) fn fields(self) -> Option<JsonFields<'v>> {
        match self {
            Self::Tree(value) => value.as_object().map(|fields| JsonFields::Tree(fields.iter())),
            Self::Tokens([JsonToken::Object(tokens), rest @ ..]) => {
                Some(JsonFields::Tokens(&rest[..*tokens]))
            }
            Self::Tokens(_) => None,
        }
    }

    /// Its items, if it is a list.
    pub(crate) fn items(self) -> Option<JsonItems<'v>> {
        match self {
            Self::Tree(value) => value.as_array().map(|items| JsonItems::Tree(items.iter())),
            Self::Tokens([JsonToken::List(tokens), rest @ ..]) => {
                Some(JsonItems::Tokens(&rest[..*tokens]))
            }
            Self::Tokens(_) => None,
        }
    }

    /// The text that it is.
    pub(crate) fn text(self) -> Option<&'v str> {
        match self {
            Self::Tree(value) => value.as_str(),
            Self::Tokens([JsonToken::Text(text), ..]) => Some(text),
            Self::Tokens(_) => None,
        }
    }

    pub(crate) fn is_null(self) -> bool {
        match self {
            Self::Tree(value) => value.is_null(),
            Self::Tokens(tokens) => matches!(tokens, [JsonToken::Null, ..] | []),
        }
    }

    /// The same as a tree of its own.
    pub(crate) fn to_tree(self) -> Value {
        match self.shape() {
            JsonShape::Null => Value::Null,
            JsonShape::Bool(value) => Value::Bool(value),
            JsonShape::Number(number) => Value::Number(number.clone()),
            JsonShape::Text(text) => Value::String(text.to_owned()),
            JsonShape::List(items) => Value::Array(items.map(JsonNode::to_tree).collect()),
            JsonShape::Object(fields) => {
                let fields = fields.map(|(name, value)| (name.to_owned(), value.to_tree()));
                Value::Object(Map::from_iter(fields))
            }
        }
    }
}

impl<'v> JsonToken<'v> {
    fn shape(&'v self, rest: &'v [Self]) -> JsonShape<'v> {
        match self {
            Self::Null => JsonShape::Null,
            Self::Bool(value) => JsonShape::Bool(*value),
            Self::Number(number) => JsonShape::Number(number),
            Self::Text(text) => JsonShape::Text(text),
            Self::List(tokens) => JsonShape::List(JsonItems::Tokens(&rest[..*tokens])),
            Self::Object(tokens) => JsonShape::Object(JsonFields::Tokens(&rest[..*tokens])),
        }
    }

    /// How many tokens the value has that begins with this one.
    const fn value_tokens(&self) -> usize {
        match self {
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) => 1,
            Self::List(tokens) | Self::Object(tokens) => 1 + *tokens,
        }
    }
}

/// The first value, and the tokens after it.
fn split_value<'v>(tokens: &'v [JsonToken<'v>]) -> Option<(JsonNode<'v>, &'v [JsonToken<'v>])> {
    let (value, rest) = tokens.split_at(tokens.first()?.value_tokens());
    Some((JsonNode::Tokens(value), rest))
}

impl<'v> Iterator for JsonItems<'v> {
    type Item = JsonNode<'v>;

    fn next(&mut self) -> Option<JsonNode<'v>> {
        match self {
            Self::Tree(items) => items.next().map(JsonNode::Tree),
            Self::Tokens(tokens) => {
                let (value, rest) = split_value(tokens)?;
                *tokens = rest;
                Some(value)
            }
        }
    }
}

impl JsonItems<'_> {
    /// How many are left.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Tree(items) => items.len(),
            Self::Tokens(tokens) => JsonItems::Tokens(tokens).count(),
        }
    }
}

impl<'v> Iterator for JsonFields<'v> {
    type Item = (&'v str, JsonNode<'v>);

    fn next(&mut self) -> Option<(&'v str, JsonNode<'v>)> {
        match self {
            Self::Tree(fields) => {
                let (name, value) = fields.next()?;
                Some((name, JsonNode::Tree(value)))
            }
            Self::Tokens(tokens) => {
                let [JsonToken::Text(name), rest @ ..] = *tokens else { return None };
                let (value, rest) = split_value(rest)?;
                *tokens = rest;
                Some((name, value))
            }
        }
    }
}

impl JsonFields<'_> {
    /// How many are left.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Tree(fields) => fields.len(),
            Self::Tokens(tokens) => JsonFields::Tokens(tokens).count(),
        }
    }
}

/// Appends the tokens of a value.
struct Tokeniser<'a, 't>(&'a mut Vec<JsonToken<'t>>);

impl<'t> DeserializeSeed<'t> for Tokeniser<'_, 't> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl Tokeniser<'_, '_> {
    /// Says of the list or object that began there how many tokens it has.
    fn close(&mut self, begin: usize) {
        let inside = self.0.len() - begin - 1;
        if let Some(JsonToken::List(tokens) | JsonToken::Object(tokens)) = self.0.get_mut(begin) {
            *tokens = inside;
        }
    }
}

impl<'t> Visitor<'t> for Tokeniser<'_, 't> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any value of JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.0.push(JsonToken::Null);
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.0.push(JsonToken::Bool(value));
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.0.push(JsonToken::Number(value.into()));
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.0.push(JsonToken::Number(value.into()));
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        // JSON has no other numbers
        self.0.push(Number::from_f64(value).map_or(JsonToken::Null, JsonToken::Number));
        Ok(())
    }

    fn visit_borrowed_str<E>(self, value: &'t str) -> Result<(), E> {
        self.0.push(JsonToken::Text(Cow::Borrowed(value)));
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.0.push(JsonToken::Text(Cow::Owned(value.to_owned())));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'t>>(mut self, mut items: A) -> Result<(), A::Error> {
        let begin = self.0.len();
        self.0.push(JsonToken::List(0));
        while items.next_element_seed(Tokeniser(self.0))?.is_some() {}
        self.close(begin);
        Ok(())
    }

    fn visit_map<A: MapAccess<'t>>(mut self, mut fields: A) -> Result<(), A::Error> {
        let begin = self.0.len();
        self.0.push(JsonToken::Object(0));
        while fields.next_key_seed(Tokeniser(self.0))?.is_some() {
            fields.next_value_seed(Tokeniser(self.0))?;
        }
        self.close(begin);
        Ok(())
    }
}
