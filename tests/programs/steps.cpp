// The subject of the stored recordings: few functions, no library (x86-64 only, for the sake of its last call).

#ifndef REPEAT
#define REPEAT 1
#endif

static volatile unsigned long sink;

__attribute__((noipa)) static void step(long count) {
    for (long index = 0; index < count; index++) sink = sink + index;
    asm volatile("");
}

__attribute__((noipa)) static void descend(int depth) {
    static char pages[16][4096];
    pages[depth][0] = 1;
    step(2000000);
    if (depth > 0) descend(depth - 1);
    asm volatile("");
}

extern "C" [[noreturn]] void _start() {
    for (int round = 0; round < REPEAT; round++) descend(9);
    asm volatile("syscall" : : "a"(60), "D"(0));
    __builtin_unreachable();
}
