//! `cargo xtask words`: measures how plainly the project speaks, and fails when it speaks less
//! plainly than it did.
//!
//! Each measure has a goal and a ceiling. The ceiling is what was measured last: it may only fall,
//! until it meets the goal. The goals are those of well-written systems code; 43 % of shared type
//! names, for example, stands against 3 to 5 % there.

mod logs;
mod names;
mod prose;
mod sources;

use anyhow::bail;

/// One figure, what it should be, and what it may be today.
struct Measure {
    what: &'static str,
    /// In the unit that `what` names.
    found: f64,
    goal: f64,
    ceiling: f64,
    /// Where the worst places are, for a person who wants to mend them.
    places: Vec<String>,
}

/// How many places are shown for a measure that is over its ceiling.
const PLACES_SHOWN: usize = 10;

/// Prints all measures. With `places` it lists where each of them is above its goal.
///
/// # Errors
/// When one is above its ceiling.
pub(crate) fn check(places: bool) -> anyhow::Result<()> {
    let sources = sources::read()?;
    let prose = prose::measure(&sources::documents()?);
    let names = names::shared(&sources);
    let comments = sources::wide_comments(&sources);
    let files = sources::files_without_a_noun(&sources);
    let logs = logs::not_plain(&sources);
    let measures = [
        Measure {
            what: "words a sentence in the documents",
            found: prose.words_per_sentence,
            goal: 16.0,
            ceiling: 16.0,
            places: Vec::new(),
        },
        Measure {
            what: "% of sentences over 30 words",
            found: prose.long_percent,
            goal: 6.0,
            ceiling: 6.0,
            places: prose.long,
        },
        Measure {
            what: "% of types that share their name",
            found: names.percent,
            goal: 15.0,
            ceiling: 2.0,
            places: names.shared,
        },
        count("comment lines over 100 columns", 0.0, 0.0, comments),
        count("files named after no noun", 0.0, 0.0, files),
        count("WARN and ERROR lines that begin with no verb", 0.0, 0.0, logs),
    ];
    let mut above = Vec::new();
    for measure in &measures {
        let Measure { what, found, goal, ceiling, .. } = measure;
        println!("{found:8.1} {what} (goal {goal}, at most {ceiling})");
        let is_above = found > ceiling;
        if is_above {
            above.push(*what);
        }
        if places && found > goal {
            measure.places.iter().for_each(|place| println!("           {place}"));
        } else if is_above {
            measure
                .places
                .iter()
                .take(PLACES_SHOWN)
                .for_each(|place| println!("           {place}"));
        }
    }
    if !above.is_empty() {
        bail!(
            "the words became less plain: {}; `cargo xtask words --places` shows where",
            above.join(", ")
        );
    }
    Ok(())
}

fn count(what: &'static str, goal: f64, ceiling: f64, places: Vec<String>) -> Measure {
    #[allow(clippy::cast_precision_loss, reason = "some thousands")]
    let found = places.len() as f64;
    Measure { what, found, goal, ceiling, places }
}
