//! The report as a page: one file without script, its plots as inline SVG.

use std::fmt::Write as _;

use rekindle_types::TickDuration;

use crate::outcome::PolicyOutcome;
use crate::report::ScenarioReport;
use crate::spoken::spoken;
use crate::timeline::{Timeline, TimelineSpan};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 120.0;
/// What the times below a plot take.
const AXIS: f64 = 18.0;
/// Times that are written below a plot.
const TIMES: u64 = 6;
const STYLE: &str = "body{font:15px/1.4 system-ui,sans-serif;max-width:1040px;margin:2em auto;padding:0 1em;color:#222}\
table{border-collapse:collapse}th,td{padding:.25em .8em;border-bottom:1px solid #ddd;text-align:right}th:first-child,td:first-child\
{text-align:left}svg{display:block;width:100%;height:auto;background:#fafafa;border:1px solid #ddd}h3{margin:1em 0 .2em;font-size:1em;\
font-weight:600}.note{color:#666}text{font:11px system-ui,sans-serif;fill:#666}.broken{color:#b00020}";

/// One plot: what it shows, of which colour, and how a span is drawn.
struct TimelinePlot {
    title: &'static str,
    colour: &'static str,
    value: fn(&TimelineSpan) -> u64,
    /// The height is that of the highest value of this.
    scale: fn(&TimelineSpan) -> u64,
}

const PLOTS: [TimelinePlot; 3] = [
    TimelinePlot {
        title: "Pods that are wanted and do not serve",
        colour: "#c0392b",
        value: |span| span.missing,
        scale: |span| span.wanted,
    },
    TimelinePlot {
        title: "Restarts of containers",
        colour: "#2471a3",
        value: |span| span.restarts,
        scale: |span| span.restarts,
    },
    TimelinePlot {
        title: "Writes to the API",
        colour: "#7d6608",
        value: |span| span.writes,
        scale: |span| span.writes,
    },
];

impl ScenarioReport {
    /// For a browser: one page without script, with plots.
    pub fn html(&self) -> String {
        page(self)
    }
}

fn page(report: &ScenarioReport) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>rekindle sim</title><style>{STYLE}</style></head><body>\n\
         <h1>rekindle sim</h1>\n<p class=\"note\">seed {}, {} of virtual time</p>\n<table><tr>",
        report.seed(),
        spoken(report.duration()),
    );
    let mut rows = report.rows().into_iter();
    for head in rows.next().unwrap_or_default() {
        put(&mut page, format_args!("<th>{}</th>", escaped(&head.to_lowercase())));
    }
    page.push_str("</tr>\n");
    for row in rows {
        page.push_str("<tr>");
        for cell in row {
            put(&mut page, format_args!("<td>{}</td>", escaped(&cell)));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
    page.push_str(
        "<p class=\"note\">unavailable: the times of all pods that were wanted and did not serve, added up; recovery: the longest time \
         until everything served again, and for ten seconds</p>\n",
    );
    for note in report.notes() {
        put(&mut page, format_args!("<p class=\"note\">{}</p>\n", escaped(&note)));
    }
    if !report.marks().is_empty() {
        page.push_str("<h2>What was done</h2>\n<ul>\n");
        for (at, what) in report.marks() {
            put(&mut page, format_args!("<li>after {}: {}</li>\n", spoken(*at), escaped(what)));
        }
        page.push_str("</ul>\n");
    }
    // the same height means the same number in the plots of all policies
    let tops = PLOTS.each_ref().map(|plot| {
        let spans = report.outcomes.iter().flat_map(|outcome| &outcome.timeline.spans);
        spans.map(plot.scale).max().unwrap_or(0).max(1)
    });
    for outcome in &report.outcomes {
        policy(&mut page, report, outcome, &tops);
    }
    page.push_str("</body></html>\n");
    page
}

fn policy(page: &mut String, report: &ScenarioReport, outcome: &PolicyOutcome, tops: &[u64]) {
    put(page, format_args!("<h2>{}</h2>\n", escaped(&outcome.policy)));
    if let Some(broken) = &outcome.broken_promise {
        let broken = escaped(broken);
        put(page, format_args!("<p class=\"broken\">A promise was broken: {broken}</p>\n"));
    }
    if let Some(most) = outcome.most_restarted() {
        let most = escaped(&most);
        put(page, format_args!("<p class=\"note\">restarts by pod: {most}</p>\n"));
    }
    for (plot, top) in PLOTS.iter().zip(tops) {
        draw(page, plot, *top, &outcome.timeline, report);
    }
}

fn draw(
    page: &mut String,
    plot: &TimelinePlot,
    top: u64,
    timeline: &Timeline,
    report: &ScenarioReport,
) {
    let TimelinePlot { title, colour, .. } = plot;
    let whole = HEIGHT + AXIS;
    let span = spoken(timeline.span);
    put(
        page,
        format_args!("<h3>{title} <span class=\"note\">(in {span}; top: {top})</span></h3>\n"),
    );
    put(
        page,
        format_args!("<svg viewBox=\"0 0 {WIDTH} {whole}\" role=\"img\"><title>{title}</title>\n"),
    );
    let width = WIDTH / timeline.spans.len() as f64;
    for (index, span) in timeline.spans.iter().enumerate() {
        let value = (plot.value)(span);
        if value == 0 {
            continue;
        }
        let height = (value as f64 / top as f64 * HEIGHT).max(1.0);
        let (x, y) = (index as f64 * width, HEIGHT - height);
        let from = spoken(timeline.span.saturating_mul(index as u64));
        put(
            page,
            format_args!(
                "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" fill=\"{colour}\"><title>after {from}: {value}</title></rect>\n"
            ),
        );
    }
    times(page, report);
    page.push_str("</svg>\n");
}

/// The times below a plot, and a line where something was done.
fn times(page: &mut String, report: &ScenarioReport) {
    let length = report.duration();
    let x = |at: TickDuration| at.as_micros() as f64 / length.as_micros().max(1) as f64 * WIDTH;
    let (base, below) = (HEIGHT, HEIGHT + AXIS - 5.0);
    put(page, format_args!("<path d=\"M0 {base}H{WIDTH}\" stroke=\"#999\"/>\n"));
    for part in 0..TIMES {
        let at = TickDuration::from_micros(length.as_micros() / TIMES * part);
        let (x, time) = (x(at) + 3.0, spoken(at));
        put(page, format_args!("<text x=\"{x:.2}\" y=\"{below}\">{time}</text>\n"));
    }
    for (at, what) in report.marks() {
        let (x, time, what) = (x(*at), spoken(*at), escaped(what));
        put(
            page,
            format_args!(
                "<path d=\"M{x:.2} 0V{base}\" stroke=\"#555\" stroke-dasharray=\"3 3\"><title>after {time}: {what}</title></path>\n"
            ),
        );
    }
}

fn put(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("a string takes everything");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_names_cannot_break_out_of_the_page() {
        assert_eq!(escaped("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
    }
}
