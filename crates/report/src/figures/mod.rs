//! The figures and tables of a run, by the shape of what was measured and never by the name of a plan:
//! rounds have convergence and window plots, sweeps their axes, saturations their drive fills, single
//! loads their course in time and their tail.

mod course;
mod crossed;
mod host;
mod points;
mod recovery;
mod rounds;
mod saturation;
mod sweeps;
mod tail;
mod timeline;

use crate::page::{Block, Section};
use analysis::{Insight, Moment, SteadyGroup, findings_with, in_rounds, moments, steady_groups};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use store::{CellRecord, RunFile, StoreError, Telemetry};

/// Single loads of a chapter that get figures of their own.
const SINGLE_MAX: usize = 16;
/// Repetitions above which each is a point of a course in time.
const LONG: usize = 20;

/// What a chapter is made of.
pub(crate) struct Chapter<'r> {
    pub(crate) run: &'r RunFile,
    /// Of the whole run, in order of time.
    pub(crate) telemetry: &'r [Telemetry],
    pub(crate) courses: &'r Courses,
    /// Chapters of a run of several plans are told by the first part of the path.
    pub(crate) name: String,
    pub(crate) cells: Vec<&'r CellRecord>,
    pub(crate) groups: Vec<&'r SteadyGroup>,
}

/// Courses of cells that were read: each is looked at several times.
#[derive(Default)]
pub(crate) struct Courses(RefCell<HashMap<i64, Rc<Vec<Moment>>>>);

impl Courses {
    pub(crate) fn of(
        &self,
        run: &RunFile,
        cell: &CellRecord,
    ) -> Result<Rc<Vec<Moment>>, StoreError> {
        if let Some(known) = self.0.borrow().get(&cell.id) {
            return Ok(known.clone());
        }
        let read = Rc::new(moments(run, cell, |_, _| {})?);
        self.keep(cell, &read);
        Ok(read)
    }

    pub(crate) fn keep(&self, cell: &CellRecord, course: &Rc<Vec<Moment>>) {
        self.0.borrow_mut().insert(cell.id, course.clone());
    }
}

/// All figures of a run, chapter by chapter, and what was found in it.
pub(crate) fn sections(run: &RunFile) -> Result<(Vec<Section>, Vec<Insight>), StoreError> {
    let groups = steady_groups(run);
    let mut sections = Vec::new();
    let telemetry = run.telemetry()?;
    let courses = Courses::default();
    for chapter in chapters(run, &groups, (&telemetry, &courses)) {
        sections.extend(chapter_sections(&chapter)?);
    }
    sections.extend(host::section(run, &telemetry));
    let found = findings_with(run, &telemetry, &mut |cell| courses.of(run, cell))?;
    Ok((sections, found))
}

/// Whether the plan runs other plans.
fn runs_plans(run: &RunFile) -> bool {
    let plan: Option<toml::Table> = run.meta("plan_source").parse().ok();
    let steps = plan.as_ref().and_then(|plan| plan.get("step")?.as_array());
    steps.is_some_and(|steps| steps.iter().any(|step| step.get("plan").is_some()))
}

/// A plan that runs other plans has a chapter for each.
fn chapters<'r>(
    run: &'r RunFile,
    groups: &'r [SteadyGroup],
    (telemetry, courses): (&'r [Telemetry], &'r Courses),
) -> Vec<Chapter<'r>> {
    let head = |path: &str| path.split('/').next().unwrap_or_default().to_owned();
    let several = runs_plans(run);
    let mut chapters: Vec<Chapter<'r>> = Vec::new();
    for cell in &run.cells {
        let name = if several { head(&cell.path) } else { "Results".into() };
        match chapters.iter_mut().find(|chapter| chapter.name == name) {
            Some(chapter) => chapter.cells.push(cell),
            None => chapters.push(Chapter {
                run,
                telemetry,
                courses,
                name,
                cells: vec![cell],
                groups: Vec::new(),
            }),
        }
    }
    for group in groups {
        let name = if several { head(&group.path) } else { "Results".into() };
        if let Some(chapter) = chapters.iter_mut().find(|chapter| chapter.name == name) {
            chapter.groups.push(group);
        }
    }
    chapters
}

fn chapter_sections(chapter: &Chapter<'_>) -> Result<Vec<Section>, StoreError> {
    let mut all = vec![Section::new(&chapter.name, 2)];
    for group in &chapter.groups {
        if group.evidence["unit"] == "round" {
            all.push(rounds::section(chapter, group));
        } else {
            all.push(saturation::section(chapter, group)?);
        }
    }
    all.extend(rounds::across_groups(chapter));
    all.extend(sweeps::sections(chapter));
    all.extend(timeline::section(chapter)?);
    all.extend(recovery::sections(chapter)?);
    for cell in singles(chapter).into_iter().take(SINGLE_MAX) {
        all.extend(tail::section(chapter, cell)?);
    }
    all.extend(points::section(chapter));
    all.retain(|section| section.level == 2 || !section.blocks.is_empty());
    Ok(all)
}

impl<'r> Chapter<'r> {
    /// Cells outside of rounds that ended well and are no fill.
    pub(crate) fn outside_rounds(&self) -> Vec<&'r CellRecord> {
        let counts = |cell: &&&CellRecord| cell.verb != "fill" && !cell.totals.is_empty();
        let outside = |cell: &&&CellRecord| {
            !self.groups.iter().any(|group| in_rounds(std::slice::from_ref(*group), cell))
        };
        self.cells.iter().filter(counts).filter(outside).copied().collect()
    }
}

/// Loads that stand alone: no part of a sweep, of rounds or of a long repetition.
fn singles<'r>(chapter: &Chapter<'r>) -> Vec<&'r CellRecord> {
    let cells = chapter.outside_rounds();
    let own: Vec<&str> = chapter.groups.iter().map(|group| group.path.as_str()).collect();
    let mut of_step: BTreeMap<String, usize> = BTreeMap::new();
    cells.iter().for_each(|cell| *of_step.entry(analysis::step_path(&cell.path)).or_default() += 1);
    let alone = |cell: &&CellRecord| {
        let alone_in_step = of_step.get(&analysis::step_path(&cell.path)).is_some_and(|n| *n <= 1);
        // Loads between long repetitions are part of one course, which is drawn as a whole.
        let in_course = of_step.values().any(|n| *n > LONG) && !own.contains(&cell.path.as_str());
        (coordinates(cell).is_empty() || is_point(chapter, cell)) && alone_in_step && !in_course
    };
    cells.iter().copied().filter(alone).collect()
}

/// Whether a cell was run at an operating point that was chosen.
fn is_point(chapter: &Chapter<'_>, cell: &CellRecord) -> bool {
    let path = |text: &str| text.split(':').next().unwrap_or_default().to_owned();
    let mut points = chapter.run.events.iter().filter(|event| event.kind == "point");
    points.any(|event| cell.path.starts_with(&format!("{}/", path(&event.text))))
}

/// Place of a cell on the axes of its sweep.
pub(crate) fn coordinates(cell: &CellRecord) -> Vec<(String, String)> {
    analysis::coordinates_of(cell)
}

/// What a cell is called in a heading.
pub(crate) fn name_of(chapter: &Chapter<'_>, cell: &CellRecord) -> String {
    let path = analysis::step_path(&cell.path);
    let path = path.strip_prefix(&format!("{}/", chapter.name)).unwrap_or(&path).to_owned();
    match cell.label.is_empty() {
        true => path,
        false => format!("{path} {}", cell.label),
    }
}

/// The short form of what a cell did.
pub(crate) fn describe(cell: &CellRecord) -> String {
    let all: Vec<&str> = cell.streams.iter().map(|stream| stream.describe.as_str()).collect();
    all.join(" + ")
}

pub(crate) fn figure(section: &mut Section, figure: impl Into<crate::chart::Figure>) {
    section.add(Block::Figure(Box::new(figure.into())));
}
