#!/bin/sh
# Makes the recordings of this folder again; see README.md. Needs perf 6.1 or later, g++, and the right to record the kernel.
set -eu
source=$(realpath "$(dirname "$0")/../programs/steps.cpp")
out=$(realpath "$(dirname "$0")")
mkdir -p /tmp/recordings
cd /tmp/recordings
build="g++ -std=c++17 -O2 -static -nostdlib -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer -Wl,--build-id"
$build -o steps "$source"
$build -DREPEAT=100 -o long-steps "$source"

perf record -q -N -F 1999 -g -o plain.perf.data -- ./steps
perf record -q -N -F 1999 -g -e cpu-clock,page-faults -o two-events.perf.data -- ./steps
perf record -q -N -F 1999 -g -e '{cpu-clock,page-faults}:S' -o leader.perf.data -- ./steps
perf record -q -N -F 1999 -g -z --buildid-mmap -o compressed.perf.data -- ./steps
perf record -q -N -F 1999 -g -o - -- ./steps | cat >pipe.perf.data
perf record -q -N -F 1999 -g -z -o - -- ./steps | cat >compressed-pipe.perf.data

rm -f killed.perf.data
perf record -q -N -F 1999 -g -m 4 -o killed.perf.data -- ./long-steps &
perf=$!
until [ -s killed.perf.data ] && [ "$(stat -c %s killed.perf.data)" -gt 20000 ]; do sleep 0.02; done
program=$(cat /proc/$perf/task/$perf/children)
kill -9 $perf $program

cp steps ./*.perf.data "$out"
chmod 644 "$out"/*.perf.data
