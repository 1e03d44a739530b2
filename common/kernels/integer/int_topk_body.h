/* The k greatest over vectors of int32; included by int_topk_<isa>.c after its lanes. No include guard.
 *
 * A few numbers say between which two the least of the k greatest will lie; one pass keeps what lies there, and the
 * same again among those, until so few are left that the least is found by halving. That it lies elsewhere costs time,
 * not truth.
 *
 * What the file in front gives: `lanes`, LANES numbers; lanes_set1; lanes_from(i), i, i + 1 and so on; lanes_load,
 * lanes_store; lanes_shifted, p << shift; lanes_above, a bit for each lane of x that is above y; lanes_count_above,
 * count and one where x is above y; keep, the lanes of a mask one behind the other, of which LANES are written, and how
 * many they are. */

enum { MOST = 1 << 30, SAMPLES = 32, MARGIN = 6, SHORT = 256, ROUNDS = 8 };
_Static_assert((int)SAMPLES % (int)LANES == 0, "samples are whole vectors");

static inline size_t bits_of(unsigned mask) { return (size_t)__builtin_popcount(mask); }

/* How many of v[n] are above x. */
static inline size_t above(const int32_t *v, size_t n, int32_t x)
{
    const lanes y = lanes_set1(x);
    size_t count = 0, i = 0;
    for (; i + LANES <= n; i += LANES) count += bits_of(lanes_above(lanes_load(v + i), y));
    for (; i < n; i++) count += v[i] > x;
    return count;
}

/* v[i] = v[i] << shift[i]. */
static void shift_all(int32_t *v, const uint8_t *shift, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) lanes_store(v + i, lanes_shifted(v + i, shift + i));
    for (; i < n; i++) v[i] *= 1 << shift[i];
}

/* Two numbers between which the k-th greatest of v[n] probably lies: of SAMPLES of them the ones MARGIN ranks above and
 * below where it would stand. */
static void guess(int32_t *low, int32_t *high, const int32_t *v, size_t n, size_t k)
{
    const int32_t rank = (int32_t)(k * SAMPLES / n);
    int32_t s[SAMPLES], less[SAMPLES], from[SAMPLES], to[SAMPLES]; /* from, to: how many of s are above s[i], and how
                                                                      many are not below it */
    for (size_t i = 0; i < SAMPLES; i++) s[i] = v[i * n / SAMPLES], less[i] = s[i] - 1;
    for (size_t i = 0; i < SAMPLES; i += LANES) {
        lanes over = lanes_set1(0), equal = lanes_set1(0);
        for (size_t j = 0; j < SAMPLES; j++) {
            over = lanes_count_above(over, lanes_set1(s[j]), lanes_load(s + i));
            equal = lanes_count_above(equal, lanes_set1(s[j]), lanes_load(less + i));
        }
        lanes_store(from + i, over), lanes_store(to + i, equal);
    }
    *low = -MOST, *high = MOST;
    for (size_t i = 0; i < SAMPLES; i++) {
        if (from[i] <= rank - MARGIN && rank - MARGIN < to[i]) *high = s[i];
        if (from[i] <= rank + MARGIN && rank + MARGIN < to[i]) *low = s[i];
    }
}

/* Copies those of v[n] that are in [low, high] to `to`, which may be v. Returns how many; *greater: how many are above
 * high. */
static size_t between(int32_t *to, size_t *greater, const int32_t *v, size_t n, int32_t low, int32_t high)
{
    const lanes l = lanes_set1(low - 1), h = lanes_set1(high);
    size_t kept = 0, up = 0, i = 0;
    for (; i + LANES <= n; i += LANES) {
        const lanes x = lanes_load(v + i);
        const unsigned over = lanes_above(x, h);
        up += bits_of(over);
        kept += keep(to + kept, x, lanes_above(x, l) & ~over);
    }
    for (; i < n; i++) {
        const int32_t x = v[i];
        to[kept] = x;
        up += x > high, kept += x >= low && x <= high;
    }
    *greater = up;
    return kept;
}

/* The indices of those of v[from .. to) that are above x go to `at`. Returns how many. */
static size_t list(uint32_t *at, const int32_t *v, size_t from, size_t to, int32_t x)
{
    const lanes y = lanes_set1(x);
    size_t count = 0, i = from;
    for (; i + LANES <= to; i += LANES)
        count += keep(at + count, lanes_from((int32_t)i), lanes_above(lanes_load(v + i), y));
    for (; i < to; i++) at[count] = (uint32_t)i, count += v[i] > x;
    return count;
}

/* The k-th greatest of v[n], which lies in [low, high]. */
static int32_t halve(const int32_t *v, size_t n, size_t k, int32_t low, int32_t high)
{
    while (low < high) {
        const int32_t middle = (int32_t)(((int64_t)low + high + 1) >> 1);
        if (above(v, n, middle - 1) >= k) low = middle;
        else high = middle - 1;
    }
    return low;
}

/* The k-th greatest of v[n]; how many are above it, and how many are it. */
static int32_t least_of(size_t *greater, size_t *equal, const int32_t *v, size_t n, size_t k, int32_t *scratch)
{
    int32_t low = -MOST, high = MOST;
    const int32_t *from = v;      /* those of v[n] in [low, high], among which it is; */
    size_t count = n, before = 0; /* how many they are, and how many are above */
    for (size_t round = 0; round < ROUNDS && count > SHORT && low < high; round++) {
        int32_t a, b;
        size_t up;
        guess(&a, &b, from, count, k - before);
        a = a > low ? a : low, b = b < high ? b : high;
        const size_t kept = between(scratch, &up, from, count, a, b);
        up += before;
        if (up < k && k - up <= kept) low = a, high = b, count = kept, before = up;
        else { /* it lies elsewhere */
            if (up < k) high = a - 1;
            else low = b + 1;
            count = between(scratch, &before, v, n, low, high);
        }
        from = scratch;
    }
    const int32_t least = halve(from, count, k - before, low, high);
    const size_t over = above(from, count, least);
    *greater = before + over;
    *equal = above(from, count, least - 1) - over;
    return least;
}

void TOPK(uint32_t *restrict at, size_t k, int32_t *restrict score, const uint8_t *restrict shift, size_t n,
          int32_t *restrict scratch)
{
    size_t greater, equal, cut = n; /* from cut on none that is the least is taken */
    shift_all(score, shift, n);
    const int32_t least = least_of(&greater, &equal, score, n, k, scratch);
    if (greater + equal > k) {
        cut = 0;
        for (size_t left = k - greater; left; cut++) left -= score[cut] == least;
    }
    const size_t count = list(at, score, 0, cut, least - 1);
    list(at + count, score, cut, n, least);
}
