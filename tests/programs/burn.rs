//! A program to be measured and recorded: it burns an exact amount of CPU time and says what the kernel counted.
//! Compiled by the tests with `rustc --edition=2021 -O -g -C force-frame-pointers=yes`.

use std::env;
use std::hint::black_box;
use std::process::Command;
use std::thread;

#[repr(C)]
struct Timeval {
    seconds: i64,
    micros: i64,
}

#[repr(C)]
struct Rusage {
    user: Timeval,
    system: Timeval,
    maxrss_kib: i64,
    rest: [i64; 13],
}

extern "C" {
    fn getrusage(who: i32, usage: *mut Rusage) -> i32;
    fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
}

fn thread_cpu_s() -> f64 {
    let mut time = [0i64; 2];
    assert_eq!(unsafe { clock_gettime(3, &mut time) }, 0);
    time[0] as f64 + time[1] as f64 / 1e9
}

#[inline(never)]
fn burn_here(seconds: f64) -> u64 {
    let mut value = 1u64;
    while thread_cpu_s() < seconds {
        for step in 0..20_000u64 {
            value = black_box(value.rotate_left(7) ^ step);
        }
    }
    value
}

fn burn(seconds: f64, threads: usize) {
    let workers: Vec<_> = (0..threads).map(|_| thread::spawn(move || burn_here(seconds))).collect();
    for worker in workers {
        black_box(worker.join().unwrap());
    }
}

fn main() {
    let args: Vec<String> = env::args().collect();
    match args[1].as_str() {
        "burn" => burn(args[2].parse().unwrap(), args[3].parse().unwrap()),
        "family" => {
            let mut child = Command::new(&args[0]).args(["burn", &args[2], "1"]).spawn().unwrap();
            black_box(burn_here(args[2].parse().unwrap()));
            assert!(child.wait().unwrap().success());
        }
        "touch" => {
            let mebibytes: usize = args[2].parse().unwrap();
            black_box(vec![1u8; mebibytes << 20]);
        }
        other => panic!("unknown command {other}"),
    }
    let mut usage: Rusage = unsafe { std::mem::zeroed() };
    assert_eq!(unsafe { getrusage(0, &mut usage) }, 0);
    let cpu_s = (usage.user.seconds + usage.system.seconds) as f64
        + (usage.user.micros + usage.system.micros) as f64 / 1e6;
    println!("{cpu_s} {}", usage.maxrss_kib);
}
