// Code that exists only in memory, as a just-in-time compiler makes it: written, run, and mapped over by other code.

#include <sys/mman.h>

#include <cstring>

// A function that counts its argument down to zero, with a frame.
#if defined __x86_64__
static const unsigned char COUNT_DOWN[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xff, 0xcf, 0x75, 0xfb, 0x5d, 0xc3};
#elif defined __aarch64__
static const unsigned int COUNT_DOWN[] = {0xa9bf7bfd, 0x910003fd, 0xf1000400, 0x54ffffe1, 0xa8c17bfd, 0xd65f03c0};
#endif

__attribute__((noinline)) static void run(void *code, long steps) {
    reinterpret_cast<void (*)(long)>(code)(steps);
    asm volatile("");
}

int main() {
    const int pages = 8;
    void *place = mmap(nullptr, pages * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < 12; round++) {
        const long size = 4096 * (1 + round % pages);
        mmap(place, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        memcpy(place, COUNT_DOWN, sizeof COUNT_DOWN);
        mprotect(place, size, PROT_READ | PROT_EXEC);
        __builtin___clear_cache(static_cast<char *>(place), static_cast<char *>(place) + sizeof COUNT_DOWN);
        run(place, 4000000);
    }
    return 0;
}
