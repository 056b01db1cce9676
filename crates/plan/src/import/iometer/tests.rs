use super::*;
use crate::{Pattern, Verb};

const FILE: &str = "Version 1.1.0
'TEST SETUP ====================================================================
'Test Description
\ta test
'Run Time
'\thours      minutes    seconds
\t0          1          30
'Ramp Up Time (s)
\t5
'Default Disk Workers to Spawn
\tNUMBER_OF_CPUS
'Record Results
\tALL
'Worker Cycling
'\tstart      step       step type
\t1          1          LINEAR
'Disk Cycling
'\tstart      step       step type
\t1          1          LINEAR
'Queue Depth Cycling
'\tstart      end        step       step type
\t1          32         2          EXPONENTIAL
'Test Type
\tCYCLE_OUTSTANDING_IOS
'END test setup
'RESULTS DISPLAY ===============================================================
'Record Last Update Results,Update Frequency,Update Type
\tDISABLED,0,LAST_UPDATE
'END results display
'ACCESS SPECIFICATIONS =========================================================
'Access specification name,default assignment
\tfile, server,NONE
'size,% of size,% reads,% random,delay,burst,align,reply
\t512,10,80,100,0,1,0,0
\t4096,60,80,100,0,1,4096,0
\t65536,30,80,50,0,1,0,0
'Access specification name,default assignment
\tseq,ALL
'size,% of size,% reads,% random,delay,burst,align,reply
\t131072,100,0,0,0,1,0,0
'END access specifications
'MANAGER LIST ==================================================================
'Manager ID, manager name
\t1,HOST
'Manager network address
\t
'Worker
\tWorker 1
'Worker type
\tDISK
'Default target settings for worker
'Number of outstanding IOs,test connection rate,transactions per connection,use fixed seed,fixed seed value
\t16,DISABLED,1,DISABLED,0
'Disk maximum size,starting sector,Data pattern
\t204800,0,0
'End default target settings for worker
'Assigned access specs
\tfile, server
\tseq
'End assigned access specs
'Target assignments
'Target
\t/dev/sdb
'Target type
\tDISK
'End target
'End target assignments
'End worker
'End manager
'END manager list
";

fn steps(text: &str) -> (crate::Plan, Imported) {
    let found = iometer_configuration("dir/disk.icf", text).unwrap_or_else(|e| panic!("{e}"));
    let plan = crate::parse("disk", &found.plan, &[]);
    (plan.unwrap_or_else(|e| panic!("{e}\n{}", found.plan)), found)
}

#[test]
fn depth_cycling_makes_a_step_for_each_specification_and_depth() {
    let (plan, found) = steps(FILE);
    assert_eq!(found.targets, ["/dev/sdb"]);
    assert_eq!(plan.steps.len(), 12, "two specifications at 1, 2, 4, 8, 16, 32");
    let Verb::Load(cell) = &plan.steps[3].verb else { panic!("a load") };
    assert_eq!(cell.window.time.unwrap().0, 90_000_000_000);
    assert_eq!(cell.window.ramp.0, 5_000_000_000);
    let weights: Vec<f64> = cell.loads.iter().filter_map(|load| load.weight).collect();
    assert_eq!((cell.loads[0].depth, weights), (8, vec![10.0, 60.0, 30.0]));
    assert_eq!(cell.loads[0].pattern, Pattern::Random);
    assert_eq!(cell.loads[2].pattern, Pattern::Jumps(50.0));
    assert_eq!(cell.loads[1].align.unwrap().0, 4096);
    assert_eq!(cell.loads[0].range.1, crate::Extent::Bytes(base::units::Bytes(204_800 * 512)));
    let Verb::Load(cell) = &plan.steps[6].verb else { panic!("a load") };
    assert_eq!((cell.loads.len(), cell.loads[0].read_percent), (1, 0.0));
}

#[test]
fn a_normal_test_uses_the_workers_depth() {
    let (plan, _) = steps(&FILE.replace("CYCLE_OUTSTANDING_IOS", "NORMAL"));
    assert_eq!(plan.steps.len(), 2);
    let Verb::Load(cell) = &plan.steps[0].verb else { panic!("a load") };
    assert_eq!(cell.loads[0].depth, 16);
}

#[test]
fn what_cannot_be_the_same_is_refused_with_its_line() {
    let refused = |from: &str, to: &str| {
        let error = iometer_configuration("a.icf", &FILE.replace(from, to));
        error.expect_err("it is refused").to_string()
    };
    assert!(
        refused("CYCLE_OUTSTANDING_IOS", "CYCLE_TARGETS").contains(":1: CYCLE_TARGETS: cycling")
    );
    assert!(refused("4096,60,80", "4096,50,80").contains("add up to 90, not 100"));
    assert!(refused("131072,100,0,0,0,1,0,0", "131072,100,0,0,5,1,0,0").contains("a delay"));
    assert!(refused("\tDISK\n'Default", "\tNETWORK,TCP\n'Default").contains("network"));
    assert!(refused("\tseq\n'End", "\tother\n'End").contains("no access specification `other`"));
    assert!(refused("\t0          1          30\n", "").contains("never ends"));
    assert!(
        refused("Assigned access specs\n\tfile, server\n\tseq", "Assigned access specs")
            .contains("nothing")
    );
}

proptest::proptest! {
    #[test]
    fn broken_files_never_panic(at in 0usize..2400, len in 0usize..80, with in "[0-9a-zA-Z',=\n\t]{0,20}") {
        let mut text = FILE.to_owned();
        let at = at.min(text.len());
        let end = (at + len).min(text.len());
        text.replace_range(at..end, &with);
        if let Ok(found) = iometer_configuration("a.icf", &text) {
            let _ = crate::parse("a", &found.plan, &[]);
        }
    }
}
