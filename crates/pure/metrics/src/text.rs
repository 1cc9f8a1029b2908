//! Writes the text format: a family's name, help and type once, then its samples.

use std::fmt::Write;

/// What the samples of a family are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// They only grow.
    Counter,
    /// They come and go.
    Gauge,
    /// Buckets, a sum and a count.
    Histogram,
}

impl MetricKind {
    fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A text that grows by one family after the other.
#[derive(Debug, Default)]
pub struct Text {
    text: String,
    family: &'static str,
}

impl Text {
    /// Begins a family. Each name may begin once.
    pub fn family(&mut self, name: &'static str, kind: MetricKind, help: &str) {
        self.family = name;
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        self.put(format_args!("# HELP {name} {help}\n# TYPE {name} {}\n", kind.name()));
    }

    /// A sample of the family that was begun last.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        self.suffixed("", labels, value, None);
    }

    /// The same for a figure that was taken at this time, in milliseconds since the Unix epoch.
    pub fn sample_at(&mut self, labels: &[(&str, &str)], value: f64, millis: u64) {
        self.suffixed("", labels, value, Some(millis));
    }

    /// A family of one sample without labels.
    pub fn single(&mut self, name: &'static str, kind: MetricKind, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(&[], value);
    }

    pub(super) fn suffixed(
        &mut self,
        suffix: &str,
        labels: &[(&str, &str)],
        value: f64,
        millis: Option<u64>,
    ) {
        self.text.push_str(self.family);
        self.text.push_str(suffix);
        for (index, (name, value)) in labels.iter().enumerate() {
            self.text.push(if index == 0 { '{' } else { ',' });
            self.put(format_args!("{name}=\""));
            for char in value.chars() {
                match char {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    other => self.text.push(other),
                }
            }
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        self.put(format_args!(" {}", number(value)));
        if let Some(millis) = millis {
            self.put(format_args!(" {millis}"));
        }
        self.text.push('\n');
    }

    fn put(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.text.write_fmt(arguments).expect("a string takes all that is written to it");
    }

    /// All of it.
    pub fn into_string(self) -> String {
        self.text
    }
}

/// As the format spells numbers.
pub(super) fn number(value: f64) -> String {
    if value == f64::INFINITY { "+Inf".to_owned() } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_times_follow_the_value() {
        let mut text = Text::default();
        text.family("a_total", MetricKind::Counter, "Help with \\ and\nlines.");
        text.sample(&[("path", "a\"b\\c\nd"), ("code", "200")], 3.0);
        text.sample_at(&[], 0.5, 1_760_000_000_000);
        text.single("b", MetricKind::Gauge, "Nothing.", 1e20);
        assert_eq!(
            text.into_string(),
            "# HELP a_total Help with \\\\ and\\nlines.\n# TYPE a_total counter\n\
             a_total{path=\"a\\\"b\\\\c\\nd\",code=\"200\"} 3\na_total 0.5 1760000000000\n\
             # HELP b Nothing.\n# TYPE b gauge\nb 100000000000000000000\n"
        );
    }
}
