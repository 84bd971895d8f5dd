# The runtime of every tile: zero the workers, wait for all tiles, run.
start:
    set r0, 0
    set r1, 6
clear_workers:
    store r0, r1, 0
    add r1, r1, -1
    loop r1, 2
    sync 0
    load r2, r0, 4
    sync 1
dispatch:
    load r3, r2, 0
    add r2, r2, 4
    loop r3, 2
finish:
    sync 1
    store r0, r2, 8
    halt
