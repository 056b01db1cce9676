//! Golden pictures: a change of what is drawn is a change that is looked at.

use report::chart::{
    Axis, Chart, Columns, Figure, Grid, Lane, Mark, Place, Scale, Series, Side, Style, Unit,
};

fn golden(name: &str, figure: impl Into<Figure>) {
    // One element a line, so that a difference can be read.
    let svg = figure.into().svg_file().replace("><", ">\n<");
    insta::assert_snapshot!(name, svg);
}

#[test]
fn a_course_with_two_axes_marks_and_a_gap() {
    let rate = (0..40).map(|n| {
        let at = f64::from(n);
        (at * 30.0, if n == 20 { f64::NAN } else { 1000.0 + 200.0 * (at / 4.0).sin() })
    });
    let latency = (0..40).map(|n| (f64::from(n) * 30.0, 1e5 * 1.2f64.powi(n % 9)));
    golden(
        "course",
        Chart {
            title: "IOPS and latency over time".into(),
            note: "Each point is the mean of 30 s.".into(),
            x: Axis::linear("time", Unit::Seconds),
            y: Axis::linear("IOPS", Unit::Plain),
            y2: Some(Axis::log("latency", Unit::Nanos)),
            series: vec![
                Series::new("IOPS", Style::Line, 0, rate.collect()),
                Series::new("p99", Style::Dashed, 1, latency.collect()).on_the_right(),
            ],
            marks: vec![
                Mark { text: "ramp, not counted".into(), at: Place::Span(0.0, 90.0) },
                Mark { text: "purge".into(), at: Place::X(600.0) },
            ],
        },
    );
}

#[test]
fn columns_with_whiskers_over_names() {
    let bars = |color, heights: [f64; 3]| Series {
        low: heights.iter().map(|h| h * 0.95).collect(),
        high: heights.iter().map(|h| h * 1.05).collect(),
        ..Series::new(
            &format!("drive {color}"),
            Style::Bars,
            color,
            heights.iter().enumerate().map(|(n, h)| (n as f64, *h)).collect(),
        )
    };
    golden(
        "bars",
        Chart {
            title: "Normalised".into(),
            note: String::new(),
            x: Axis::named("load", ["4k read", "4k write", "70/30"].map(String::from).to_vec()),
            y: Axis::linear("ratio", Unit::Plain),
            y2: None,
            series: vec![bars(0, [1.0, 1.0, 1.0]), bars(1, [1.2, 0.8, 1.01])],
            marks: vec![Mark { text: "reference".into(), at: Place::Y(1.0) }],
        },
    );
}

#[test]
fn a_map_of_latencies_and_columns_in_space() {
    let range = |label: &str, range, unit, scale| Side {
        range,
        unit,
        scale,
        ..Side::named(label, Vec::new())
    };
    golden(
        "map",
        Grid {
            title: "Latency over time".into(),
            note: "A field's colour is the number of I/Os.".into(),
            columns: range("time", (0.0, 60.0), Unit::Seconds, Scale::Linear),
            rows: range("latency", (1e4, 1e7), Unit::Nanos, Scale::Log),
            values: (0..6)
                .map(|row| {
                    (0..12)
                        .map(|c| if (row + c) % 5 == 0 { f64::NAN } else { f64::from(row * c + 1) })
                        .collect()
                })
                .collect(),
            texts: Vec::new(),
            log: true,
            meaning: "I/Os in a field".into(),
            points: Some(("largest".into(), vec![(10.0, 5e6), (40.0, 2e6)])),
            lanes: vec![Lane {
                unit: Unit::Celsius,
                lines: vec![Series::new(
                    "temperature",
                    Style::Line,
                    1,
                    (0..60).map(|n| (f64::from(n), 40.0 + f64::from(n % 20))).collect(),
                )],
            }],
            marks: vec![
                (12.0, "throttled".into()),
                (14.0, "and again".into()),
                (55.0, "cooler".into()),
            ],
        },
    );
    golden(
        "space",
        Columns {
            title: "3D: IOPS by block and read".into(),
            note: String::new(),
            across: ("block size".into(), ["4k", "8k", "16k"].map(String::from).to_vec()),
            back: ("read share, %".into(), ["0", "50", "100"].map(String::from).to_vec()),
            height: "IOPS".into(),
            unit: Unit::Plain,
            values: vec![vec![1e5, 5e4, 2e4], vec![2e5, 1e5, f64::NAN], vec![8e5, 4e5, 2e5]],
        },
    );
}
