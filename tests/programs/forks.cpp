// Processes that fork, and replace themselves by this program again, each with functions of its own.

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile unsigned long sink;

// The numbers keep the compiler from taking equal functions for one.
#define STEPS(name, number) \
    __attribute__((noinline, noclone)) static void name(long steps) { \
        for (long step = 0; step < steps; step++) sink = sink + step * number; \
        asm volatile(""); \
    }

STEPS(before_exec, 3)
STEPS(after_exec, 5)
STEPS(in_child, 7)
STEPS(in_parent, 9)

__attribute__((noinline)) static void touch_pages(int pages) {
    auto *memory = static_cast<char *>(mmap(nullptr, pages * 4096L, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (int page = 0; page < pages; page++) memory[page * 4096L] = 1;
    munmap(memory, pages * 4096L);
}

int main(int count, char **) {
    const long steps = 8000000;
    if (count > 1) {
        after_exec(steps);
        return 0;
    }
    before_exec(steps);
    if (fork() == 0) {
        in_child(steps);
        execl("/proc/self/exe", "again", "once", nullptr);
    }
    if (fork() == 0) {
        in_child(steps);
        touch_pages(200);
        _exit(0);
    }
    in_parent(steps);
    touch_pages(200);
    while (wait(nullptr) > 0) {
    }
    execl("/proc/self/exe", "again", "once", nullptr);
    return 1;
}
