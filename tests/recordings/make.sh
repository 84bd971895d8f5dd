#!/bin/sh
# Makes the recordings of this folder again; see README.md. Needs perf 6.1 or later, g++, and the right to record the kernel.
set -eu
source=$(realpath "$(dirname "$0")/../programs/steps.cpp")
out=$(realpath "$(dirname "$0")")
mkdir -p /tmp/recordings
cd /tmp/recordings
g++ -std=c++17 -O2 -static -nostdlib -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer -Wl,--build-id -o steps "$source"

perf record -q -N -F 1999 -g -o plain.perf.data -- ./steps
perf record -q -N -F 1999 -g -e cpu-clock,page-faults -o two-events.perf.data -- ./steps
perf record -q -N -F 1999 -g -e '{cpu-clock,page-faults}:S' -o leader.perf.data -- ./steps
perf record -q -N -F 1999 -g -z --buildid-mmap -o compressed.perf.data -- ./steps
perf record -q -N -F 1999 -g -o - -- ./steps | cat >pipe.perf.data
perf record -q -N -F 1999 -g -z -o - -- ./steps | cat >compressed-pipe.perf.data

perf record -q -N -F 1999 -g -m 1 -o killed.perf.data -- sh -c 'for i in 1 2 3 4 5 6; do ./steps; done; sleep 0.2; kill -9 $PPID' || true
cp steps ./*.perf.data "$out"
chmod 644 "$out"/*.perf.data
