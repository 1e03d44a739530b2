/* The name or value that was meant: units that end a name, and the distance between two words. */
#include "device/profile_words.h"

#include <string.h>
#include <strings.h>

enum { LONGEST = 63 };

/* Endings that say a unit; the first of each are those that fields have. */
static const char *const units[] = {"bytes", "ns", "rows", "bits", "kib", "mib",    "gib",   "kb",
                                    "mb",    "gb", "us",   "ms",   "s",   "tokens", "lines", "b"};
enum { OURS = 4, UNITS = sizeof units / sizeof *units };

/* Letters before "_UNIT"; all of them where the name ends in none. */
static size_t stem(const char *name)
{
    const char *last = strrchr(name, '_');
    for (size_t i = 0; last && i < UNITS; i++)
        if (!strcasecmp(last + 1, units[i])) return (size_t)(last - name);
    return strlen(name);
}

const char *bt_profile_unit(const char *name)
{
    const char *last = strrchr(name, '_');
    for (size_t i = 0; last && i < OURS; i++)
        if (!strcmp(last + 1, units[i])) return units[i];
    return NULL;
}

/* Letters to change, add or drop. */
static size_t distance(const char *a, const char *b)
{
    size_t row[LONGEST + 1];
    const size_t na = strlen(a), nb = strlen(b);
    for (size_t j = 0; j <= nb; j++) row[j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t corner = row[0]; /* of the row above */
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t best = corner + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            corner = row[j];
            row[j] = best;
        }
    }
    return row[nb];
}

const char *bt_profile_nearest(const char *given, const char *const *name, size_t n)
{
    const size_t len = strlen(given), mine = stem(given);
    const char *best = NULL;
    size_t least = len / 3 + 1;
    if (!len || len > LONGEST) return NULL;
    for (size_t i = 0; i < n; i++)
        if (stem(name[i]) == mine && !strncasecmp(name[i], given, mine)) return name[i];
    for (size_t i = 0; i < n; i++) {
        const size_t d = distance(given, name[i]);
        if (d >= least) continue;
        least = d;
        best = name[i];
    }
    return best;
}

uint64_t bt_profile_size(const char *text)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } unit[] = {
        {"", 1},
        {"b", 1},
        {"bytes", 1},
        {"kib", 1 << 10},
        {"mib", 1 << 20},
        {"gib", 1 << 30},
        {"tib", UINT64_C(1) << 40},
        {"kb", 1000},
        {"mb", 1000000},
        {"gb", 1000000000},
        {"tb", UINT64_C(1000000000000)},
    };
    uint64_t n = 0;
    const char *c = text;
    for (; *c >= '0' && *c <= '9'; c++)
        if ((n = n * 10 + (uint64_t)(*c - '0')) >> 50) return 0;
    if (c == text) return 0;
    while (*c == ' ') c++;
    for (size_t i = 0; i < sizeof unit / sizeof *unit; i++) {
        uint64_t bytes;
        if (!strcasecmp(c, unit[i].name) && !__builtin_mul_overflow(n, unit[i].bytes, &bytes) &&
            bytes <= UINT64_C(1) << 50)
            return bytes;
    }
    return 0;
}
