//! Progress: bars with the last second's figures in a terminal, plain lines elsewhere.

use analysis::{Eta, Status, Tracked, summarize_counts};
use base::clock::Clock;
use base::sample::{IntervalSample, StreamSample};
use base::units::{Bytes, Nanos, format_span, three_digits};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use plan::{Estimate, SteadyRule};
use report::{cell_line, interval_line};
use runner::{CellPlan, Observer, Progress};
use std::collections::VecDeque;
use std::io::IsTerminal;

/// Points of the sparkline.
const SPARK: usize = 30;
/// Plain lines inside a cell come at most this often.
const PLAIN_EVERY: Nanos = Nanos(30_000_000_000);

/// Where progress goes.
enum Place {
    Nowhere,
    Lines,
    Bars(Bars),
}

struct Bars {
    all: MultiProgress,
    overall: ProgressBar,
    step: ProgressBar,
    figures: ProgressBar,
}

/// Progress of a run.
pub(crate) struct Live {
    place: Place,
    cells: u32,
    cells_done: u32,
    eta: Eta,
    cell: Option<CellPlan>,
    cell_time: Nanos,
    cell_bytes: u64,
    spark: VecDeque<f64>,
    last_line: Nanos,
}

impl Live {
    pub(crate) fn new(quiet: bool) -> Live {
        let place = match quiet {
            true => Place::Nowhere,
            false if std::io::stderr().is_terminal() => Place::Bars(Bars::new()),
            false => Place::Lines,
        };
        Live {
            place,
            cells: 0,
            cells_done: 0,
            eta: Eta::new(Estimate::default()),
            cell: None,
            cell_time: Nanos(0),
            cell_bytes: 0,
            spark: VecDeque::new(),
            last_line: Clock::Monotonic.now(),
        }
    }

    /// Removes the bars.
    pub(crate) fn finish(&mut self) {
        if let Place::Bars(bars) = &self.place {
            bars.figures.finish_and_clear();
            bars.step.finish_and_clear();
            bars.overall.finish_and_clear();
        }
    }

    fn say(&self, line: &str) {
        match &self.place {
            Place::Nowhere => {}
            Place::Lines => eprintln!("{line}"),
            Place::Bars(bars) => {
                let _ = bars.all.println(line);
            }
        }
    }

    /// Time still to go.
    fn eta(&self) -> Nanos {
        let Some(cell) = &self.cell else { return self.eta.left(Nanos(0), Bytes(0)) };
        let here = cell.time.map_or(Nanos(0), |time| time.min(self.cell_time));
        let moved = cell.amount.map_or(Bytes(0), |amount| amount.min(Bytes(self.cell_bytes)));
        self.eta.left(here, moved)
    }

    fn started(&mut self, file: &std::path::Path, estimate: Estimate, most: Estimate) {
        let longest = format_span(Eta::new(most).left(Nanos(0), Bytes(0)));
        self.eta = Eta::new(estimate);
        self.cells = estimate.cells;
        let cells = estimate.cells;
        let time = format_span(self.eta());
        let range = match most.cells == cells && longest == time {
            true => String::new(),
            false => {
                format!(" if steady at the first chance, {} cells, {longest} at most", most.cells)
            }
        };
        self.say(&format!("{}: {cells} cells, about {time}{range}", file.display()));
        if let Place::Bars(bars) = &self.place {
            bars.overall.set_length(u64::from(cells.max(1)));
        }
    }

    fn cell_started(&mut self, cell: &CellPlan) {
        (self.cell_time, self.cell_bytes) = (Nanos(0), 0);
        self.spark.clear();
        if cell.path == "prepare" {
            // Laying out a scratch file is not in the plan's estimate.
            self.eta.add_amount(cell.amount.unwrap_or_default());
            self.cells += 1;
        }
        let name = name_of(cell);
        match &self.place {
            Place::Lines => eprintln!("{name}: {} ...", cell.describe),
            Place::Bars(bars) => {
                bars.overall.set_length(u64::from(self.cells.max(1)));
                bars.step.set_position(0);
                bars.step.set_message(format!("{name}: {}", cell.describe));
                bars.figures.set_message("");
            }
            Place::Nowhere => {}
        }
        self.cell = Some(cell.clone());
        self.draw(None);
    }

    fn interval(&mut self, sample: &IntervalSample) {
        let mut sum = StreamSample::default();
        sample.streams.iter().for_each(|stream| sum.merge(stream));
        self.cell_time.0 += sample.len.0;
        self.cell_bytes += sum.bytes();
        let summary = summarize_counts(&sum, sample.len, sample.cpu);
        if self.cell.as_ref().is_some_and(|cell| cell.amount.is_some()) {
            self.eta.set_rate(summary.bandwidth_bytes);
        }
        self.spark.push_back(summary.iops);
        if self.spark.len() > SPARK {
            self.spark.pop_front();
        }
        let line = interval_line(&summary);
        self.draw(Some(&line));
    }

    fn draw(&mut self, figures: Option<&str>) {
        let eta = format_span(self.eta());
        let share = self.cell_share();
        match &self.place {
            Place::Bars(bars) => {
                bars.step.set_position((share * 1000.0) as u64);
                bars.overall.set_position(u64::from(self.cells_done));
                bars.overall.set_message(format!("{eta} to go"));
                if let Some(figures) = figures {
                    bars.figures.set_message(format!("{figures}  {}", sparkline(&self.spark)));
                }
            }
            Place::Lines if Clock::Monotonic.now().0 >= self.last_line.0 + PLAIN_EVERY.0 => {
                self.last_line = Clock::Monotonic.now();
                let name = self.cell.as_ref().map(name_of).unwrap_or_default();
                let figures = figures.unwrap_or_default();
                eprintln!("{name}: {:.0} %, {figures}, {eta} to go", share * 100.0);
            }
            _ => {}
        }
    }

    /// How far the running cell is, by time or amount, whichever is further.
    fn cell_share(&self) -> f64 {
        let Some(cell) = &self.cell else { return 0.0 };
        let by_time = cell.time.map_or(0.0, |time| self.cell_time.0 as f64 / time.0.max(1) as f64);
        let by_amount =
            cell.amount.map_or(0.0, |amount| self.cell_bytes as f64 / amount.0.max(1) as f64);
        by_time.max(by_amount).min(1.0)
    }

    fn cell_ended(&mut self) {
        if let Some(cell) = self.cell.take() {
            self.eta.ended(cell.time, cell.amount);
        }
        self.cells_done += 1;
    }
}

impl Observer for Live {
    fn on(&mut self, progress: Progress<'_>) {
        match progress {
            Progress::Started { file, estimate, most } => self.started(file, estimate, most),
            Progress::Round { path, round, most, tracked, rule } => {
                self.say(&round_line(path, round, most, tracked, rule));
            }
            Progress::Note(text) => self.say(&format!("note: {text}")),
            Progress::CellStarted(cell) => self.cell_started(cell),
            Progress::Interval(sample) => self.interval(sample),
            Progress::CellEnded { cell, summary, verdicts } => {
                self.cell_ended();
                self.say(&cell_line(&name_of(cell), summary));
                for verdict in verdicts.iter().filter(|verdict| verdict.status >= Status::Warning) {
                    self.say(&format!("  {}: {}", verdict.status.word(), verdict.text));
                }
                self.draw(None);
            }
            Progress::Idle(time) => {
                if let Place::Bars(bars) = &self.place {
                    bars.step.set_message(format!("idle {}", format_span(time)));
                }
            }
        }
    }
}

/// A round's end in one line: each tracked value and how its window stands.
fn round_line(
    path: &str,
    round: u32,
    most: Option<u32>,
    tracked: &[Tracked],
    rule: SteadyRule,
) -> String {
    let series = |series: &Tracked| {
        let value = series.values.last().copied().unwrap_or(f64::NAN);
        let window = series.last_window(rule);
        let state = if window.steady {
            "steady".to_owned()
        } else if window.points.len() < rule.window as usize {
            format!("{} of {} values", window.points.len(), rule.window)
        } else {
            let share = |value: f64| value / window.average * 100.0;
            format!(
                "range {:.1} % of {} %, slope {:.1} % of {} %",
                share(window.range),
                rule.range_percent,
                share(window.slope_excursion),
                rule.slope_percent
            )
        };
        format!("{} {} ({state})", series.name, three_digits(value))
    };
    let all: Vec<String> = tracked.iter().map(series).collect();
    match most {
        Some(most) => format!("{path}: round {round} of at most {most}: {}", all.join("; ")),
        None => format!("{path}: value {round}: {}", all.join("; ")),
    }
}

fn name_of(cell: &CellPlan) -> String {
    if cell.label.is_empty() { cell.path.clone() } else { format!("{} {}", cell.path, cell.label) }
}

/// The last intervals as bars of eight heights, from zero to the largest.
fn sparkline(values: &VecDeque<f64>) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().copied().fold(0.0, f64::max);
    let height = |value: &f64| {
        let share = if most > 0.0 { value / most } else { 0.0 };
        HEIGHTS[((share * 7.0).round() as usize).min(7)]
    };
    values.iter().map(height).collect()
}

impl Bars {
    fn new() -> Bars {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(4));
        let bar = |template: &str, length| {
            let style = ProgressStyle::with_template(template)
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("━━─");
            all.add(ProgressBar::new(length).with_style(style))
        };
        let overall = bar("whole run {bar:30} {pos}/{len} cells, {msg}", 1);
        let step = bar("this step {bar:30} {msg}", 1000);
        let figures = bar("          {msg}", 1);
        Bars { all, overall, step, figures }
    }
}
