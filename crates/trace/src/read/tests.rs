use super::*;
use proptest::prelude::*;

fn one(time: u64, offset: u64, len: u32, write: bool) -> Request {
    Request { time, offset, len, write }
}

fn read_text(text: &str) -> Trace {
    read(text.as_bytes(), &Options::default()).unwrap()
}

fn error(text: &str) -> String {
    read(text.as_bytes(), &Options::default()).unwrap_err().to_string()
}

#[test]
fn fio_logs_of_both_versions() {
    let text = "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda write 4096 8192\n\
                /dev/sda wait 150\n/dev/sda read 0 512\n/dev/sda wait 50\n/dev/sda trim 0 512\n\
                /dev/sda sync\n/dev/sda read 512 512\n/dev/sda close\n";
    let trace = read_text(text);
    assert_eq!(trace.format, "fio iolog 2");
    let wanted =
        [one(0, 4096, 8192, true), one(150_000, 0, 512, false), one(200_000, 512, 512, false)];
    assert_eq!(trace.requests, wanted);
    assert_eq!(trace.notes, ["left out: 1 discards", "left out: 1 flushes"]);
    let text =
        "fio version 3 iolog\n0 f add\n10 f open\n100 f read 0 4096\n350 f write 4096 4096\n";
    let trace = read_text(text);
    assert_eq!(trace.requests, [one(0, 0, 4096, false), one(250_000, 4096, 4096, true)]);
    let old = Options { time_unit: Some(TimeUnit::Milliseconds), ..Options::default() };
    assert_eq!(read(text.as_bytes(), &old).unwrap().requests[1].time, 250_000_000);
    assert_eq!(error("fio version 1 iolog\n"), "fio iolog of version 1; 2 and 3 can be read");
    assert_eq!(error("fio version 2 iolog\nf dance 1 2\n"), "line 2: an action that fio has not");
}

#[test]
fn blkparse_takes_queue_events_and_counts_what_is_on_its_way() {
    let text = "  8,0    1        1     0.000000000  1234  Q   R 2048 + 8 [fio]\n\
                \x20 8,0    1        2     0.000001000  1234  G   R 2048 + 8 [fio]\n\
                \x20 8,0    1        3     0.000002000  1234  D   R 2048 + 8 [fio]\n\
                \x20 8,0    1        4     0.000500000  1234  Q  WS 4096 + 16 [fio]\n\
                \x20 8,0    1        5     0.001000000     0  C   R 2048 + 8 [0]\n\
                \x20 8,0    1        6     0.001000000     0  C  WS 4096 + 16 [0]\n\
                \x20 8,0    1        7     0.001000000  1234  Q   D 4096 + 16 [fio]\n\
                \x20 8,0    1        8     0.002000000  1234  Q FWS 0 [fio]\n\
                CPU1 (sda):\n Reads Queued: 1, 4KiB\n";
    let trace = read_text(text);
    assert_eq!(
        trace.requests,
        [one(0, 2048 * 512, 4096, false), one(500_000, 4096 * 512, 8192, true)]
    );
    assert_eq!(trace.notes, ["left out: 1 discards", "left out: 1 flushes"]);
    assert!((trace.depth.unwrap() - 3.0).abs() < 1e-9, "1 ms and 0.5 ms in 0.5 ms");
    let issued = text.replace(" Q ", " X ");
    assert_eq!(read_text(&issued).requests.len(), 1, "without queue events, those of the driver");
}

#[test]
fn events_of_the_kernel() {
    let text = "# tracer: nop\n#\n\
        \x20 fio-1234 [001] d..1.   100.000001: block_bio_queue: 7,0 R 2048 + 8 [fio]\n\
        \x20 fio-1234 [001] d..1.   100.000002: block_rq_issue: 7,0 R 4096 () 2048 + 8 none,0,0 [fio]\n\
        \x20 <idle>-0 [000] d.h1.   100.000101: block_rq_complete: 7,0 R () 2048 + 8 none,0,0 [0]\n\
        CPU:1 [LOST 3 EVENTS]\n\
        \x20 fio-1234 [001] d..1.   100.000201: block_bio_queue: 7,0 WS 4096 + 16 [fio]\n\
        \x20 fio-1234 [001] d..1.   100.000301: block_bio_queue: 7,0 FF 0 + 0 [fio]\n";
    let trace = read_text(text);
    assert_eq!(trace.format, "ftrace");
    assert_eq!(
        trace.requests,
        [one(0, 2048 * 512, 4096, false), one(200_000, 4096 * 512, 8192, true)]
    );
    assert_eq!(trace.notes, ["left out: 1 flushes", "left out: 3 lost by the recorder"]);
    assert!((trace.depth.unwrap() - 0.5).abs() < 1e-9);
}

#[test]
fn columns_of_known_recordings() {
    let msr = "128166372003061629,usr,0,Read,7014609920,24576,41286\n\
               128166372016382155,usr,0,Write,1317441536,8192,1963\n";
    let trace = read_text(msr);
    assert_eq!((trace.format, trace.requests.len()), ("MSR Cambridge", 2));
    assert_eq!(trace.requests[1], one(1_332_052_600, 1_317_441_536, 8192, true));
    let spc = "0,303567,3584,w,0.000000\n1,1055948,3072,R,0.026214\n";
    let trace = read_text(spc);
    assert_eq!(trace.format, "SPC");
    assert_eq!(trace.requests[0], one(0, 303_567 * 512, 3584, true));
    let base = (303_567u64 * 512 + 3584).next_multiple_of(1 << 20);
    assert_eq!(trace.requests[1], one(26_214_000, base + 1_055_948 * 512, 3072, false));
    assert!(trace.notes[0].contains("2 disks (0, 1) are laid end to end"), "{:?}", trace.notes);
    let only = Options { disk: Some("1".into()), ..Options::default() };
    assert_eq!(
        read(spc.as_bytes(), &only).unwrap().requests,
        [one(0, 1_055_948 * 512, 3072, false)]
    );
    let fiu = "329131208190249 4892 syslogd 904265560 8 W 6 0 531e7792\n\
               329131208190350 4892 syslogd 904265568 16 R 6 0 531e7793\n";
    let trace = read_text(fiu);
    assert_eq!(trace.requests[1], one(101, 904_265_568 * 512, 8192, false));
    let named = "Timestamp,Response,IOType,LUN,Offset,Size\n\
                 1455592790.004000,0.0005,W,0,425741312,4096\n\
                 1455592790.005500,0.0005,R,0,425741312,512\n1455592791,0.1,,0,1,1\n";
    assert_eq!(error(named), "line 4: has too few columns");
    let named = named.replace("1455592791,0.1,,0,1,1\n", "");
    assert_eq!(read_text(&named).requests[1], one(1_500_000, 425_741_312, 512, false));
    let own = read_text(&named).to_csv();
    assert_eq!(read_text(&own).requests, read_text(&named).requests);
}

fn binary(big: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |time: u64, sector: u64, bytes: u32, action: u32, carried: u16| {
        let mut number = |value: u64, len: usize| {
            let little = value.to_le_bytes();
            let digits = &little[..len];
            if big { out.extend(digits.iter().rev()) } else { out.extend(digits) }
        };
        number(0x65_61_74_07, 4);
        number(1, 4);
        number(time, 8);
        number(sector, 8);
        number(u64::from(bytes), 4);
        number(u64::from(action), 4);
        number(42, 4);
        number(8 << 20, 4);
        number(0, 4);
        number(0, 2);
        number(u64::from(carried), 2);
        out.extend(std::iter::repeat_n(7, carried.into()));
    };
    put(5_000, 8, 4096, 1 | 1 << 16, 0);
    put(5_500, 0, 0, 1 << 26, 3);
    put(6_000, 16, 8192, 1 | 2 << 16, 5);
    put(6_500, 16, 8192, 1 | 1 << 29, 0);
    put(7_000, 8, 4096, 8 | 1 << 16, 0);
    out
}

#[test]
fn blktrace_in_both_byte_orders() {
    for big in [false, true] {
        let trace = read(&binary(big), &Options::default()).unwrap();
        assert_eq!(trace.format, "blktrace");
        assert_eq!(trace.requests, [one(0, 4096, 4096, false), one(1000, 8192, 8192, true)]);
        assert_eq!(trace.notes, ["left out: 1 discards"]);
    }
    let parts = [&binary(false)[..], &binary(true)[..]];
    assert_eq!(read_parts(&parts, &Options::default()).unwrap().requests.len(), 4);
}

#[test]
fn what_is_no_recording_is_said_so() {
    assert_eq!(error(""), "is empty");
    assert!(error("hello world\n").contains("is no recording that fathom knows"));
    assert!(error("time,type,offset\n").contains("a column for the size"));
    assert_eq!(error("time,type,offset,size\n"), "has no read and no write");
    assert_eq!(error("time,type,offset,size\nx,R,0,512\n"), "line 2: its time is no number");
    let odd = read(&[0xff, 0xfe, 0, 1], &Options::default()).unwrap_err().to_string();
    assert_eq!(odd, "is neither text nor a recording of blktrace");
}

proptest! {
    #[test]
    fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&bytes, &Options::default());
    }

    #[test]
    fn no_text_panics(
        head in prop::sample::select(vec![
            "fio version 2 iolog\n", "fio version 3 iolog\n", "8,0 1 1 0.5 1 Q R 1 + 8 [x]\n",
            "time,type,offset,size\n", "0,1,512,R,0.5\n", "1,h,0,Read,0,512,3\n", "1 2 p 8 8 W 6 0 x\n",
        ]),
        lines in prop::collection::vec("[0-9a-zRWQCD/,. +-]{0,40}", 0..8),
    ) {
        let _ = read(format!("{head}{}", lines.join("\n")).as_bytes(), &Options::default());
    }

    #[test]
    fn no_recording_of_blktrace_panics(at in 0usize..220, byte: u8, cut in 0usize..260) {
        let mut bytes = binary(false);
        let n = bytes.len();
        bytes[at.min(n - 1)] = byte;
        let _ = read(&bytes[..cut.min(n)], &Options::default());
    }
}
