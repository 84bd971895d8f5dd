// C++ with templates, operators, a namespace and inlined lambdas.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <vector>

namespace planner {

template <typename Key, typename Value> struct Table {
    std::vector<std::pair<Key, Value>> rows;

    __attribute__((noinline)) Value &operator[](const Key &key) {
        auto found = std::lower_bound(rows.begin(), rows.end(), key,
                                      [](const auto &row, const Key &wanted) { return row.first < wanted; });
        if (found == rows.end() || found->first != key) {
            found = rows.insert(found, {key, Value{}});
        }
        return found->second;
    }
};

template <int Rounds> inline uint64_t scramble(uint64_t value) {
    if constexpr (Rounds == 0) {
        return value;
    } else {
        return scramble<Rounds - 1>((value << 13 ^ value >> 7) * 0x9E3779B97F4A7C15ull);
    }
}

__attribute__((noinline)) uint64_t fill(Table<uint64_t, uint64_t> &table, uint64_t seed, int count) {
    uint64_t sum = seed;
    for (int index = 0; index < count; ++index) {
        sum = scramble<6>(sum + static_cast<uint64_t>(index));
        table[sum % 4096] += sum;
    }
    return sum;
}

} // namespace planner

int main(int argc, char **argv) {
    planner::Table<uint64_t, uint64_t> table;
    uint64_t sum = 1;
    int rounds = argc > 1 ? std::atoi(argv[1]) : 40;
    for (int round = 0; round < rounds; ++round) {
        sum ^= planner::fill(table, sum, 100000);
    }
    std::printf("%llx\n", static_cast<unsigned long long>(sum));
    return 0;
}
