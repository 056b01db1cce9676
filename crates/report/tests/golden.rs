//! What programs read stays as it is: every output of one stored run, held by snapshots.
//! A change of a snapshot is a change of a contract: fields may be added, none changed or removed.

use report::{cells_table, document, fio_json, histogram_table, intervals_table, show};
use serde_json::Value;
use std::path::Path;
use store::RunFile;

/// The golden run file, as a copy: reading may write beside it.
fn with_golden(check: impl FnOnce(&RunFile)) {
    let folder = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/tests/golden/run-v1.fathom");
    let copy = folder.path().join("golden.fathom");
    std::fs::copy(golden, &copy).unwrap();
    check(&RunFile::open(&copy).unwrap());
}

fn pretty(mut value: Value) -> String {
    if value.get("file").is_some() {
        value["file"] = "RUN".into();
    }
    serde_json::to_string_pretty(&value).unwrap()
}

#[test]
fn json_document() {
    with_golden(|run| insta::assert_snapshot!(pretty(document(run))));
}

#[test]
fn json_for_readers_of_fio() {
    with_golden(|run| {
        let mut value = fio_json(run).unwrap();
        // The bins are the histogram table's: one is enough to hold their form.
        for side in ["read", "write"] {
            for time in ["clat_ns", "lat_ns"] {
                for job in value["jobs"].as_array_mut().unwrap() {
                    let bins = job[side][time]["bins"].as_object_mut().unwrap();
                    let first = bins.iter().next().map(|(k, v)| (k.clone(), v.clone()));
                    *bins = first.into_iter().collect();
                }
            }
        }
        insta::assert_snapshot!(pretty(value));
    });
}

#[test]
fn the_terminal_page() {
    with_golden(|run| {
        let path = run.path().display().to_string();
        insta::assert_snapshot!(show(run).replace(&path, "RUN"));
    });
}

#[test]
fn tables() {
    with_golden(|run| {
        insta::assert_snapshot!("cells", cells_table(run).csv());
        insta::assert_snapshot!("intervals", intervals_table(run).unwrap().csv());
        let histogram = histogram_table(run).csv();
        let head: Vec<&str> = histogram.lines().take(5).collect();
        insta::assert_snapshot!("histogram", head.join("\n"));
    });
}

#[test]
fn a_table_with_awkward_text_survives_csv() {
    use report::{Column, ColumnKind, Field, Table};
    let column = |name: &str, kind| Column { name: name.into(), kind };
    let table = Table {
        columns: vec![column("a,b", ColumnKind::Text), column("n", ColumnKind::Number)],
        rows: vec![vec![Field::Text("say \"hi\"\nagain".into()), Field::Null]],
    };
    assert_eq!(table.csv(), "\"a,b\",n\n\"say \"\"hi\"\"\nagain\",\n");
    assert!(table.parquet().unwrap().starts_with(b"PAR1"));
}
