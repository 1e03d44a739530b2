/* bt_int_topk over vectors of int32; included by int_topk_<isa>.c after its lanes. No include guard.
 *
 * A sample of the numbers says between which two the k-th greatest probably lies. One pass keeps the numbers between
 * these two. The same is repeated with the kept numbers, until so few are left that halving an interval finds the k-th
 * greatest. A wrong guess costs time, never the right result.
 *
 * The includer defines
 *   lanes, LANES                 a vector, and how many numbers it has
 *   lanes_set1(x)                x in each lane
 *   lanes_from(i)                i, i + 1, i + 2 ..
 *   lanes_load, lanes_store
 *   lanes_shifted(p, shift)      p[i] << shift[i]
 *   lanes_above(x, y)            a bit for each lane: whether x > y
 *   lanes_count_above(c, x, y)   c, plus 1 where x > y
 *   keep(to, x, mask)            writes the lanes that the mask has, one after the other (always LANES numbers), and
 *                                returns how many the mask has */

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

static void shift_all(int32_t *v, const uint8_t *shift, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) lanes_store(v + i, lanes_shifted(v + i, shift + i));
    for (; i < n; i++) v[i] *= 1 << shift[i];
}

/* Guesses low and high, between which the k-th greatest of v[n] probably lies. It ranks SAMPLES of the numbers, and
 * takes those MARGIN ranks above and below the rank that the k-th greatest would have among them. */
static void guess(int32_t *low, int32_t *high, const int32_t *v, size_t n, size_t k)
{
    const int32_t rank = (int32_t)(k * SAMPLES / n);
    int32_t s[SAMPLES], less[SAMPLES], from[SAMPLES], to[SAMPLES]; /* how many of s are above s[i]; how many are not
                                                                      below it */
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

/* Copies the numbers of v[n] in [low, high] to `to`, which may be v. Returns how many; *greater: how many of v are
 * above high. */
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

/* Writes the indices i in [from, to) with v[i] > x to `at`. Returns how many. */
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

/* Returns the k-th greatest of v[n]; *greater: how many are above it, *equal: how many equal it. */
static int32_t least_of(size_t *greater, size_t *equal, const int32_t *v, size_t n, size_t k, int32_t *scratch)
{
    int32_t low = -MOST, high = MOST;
    const int32_t *from = v;      /* [count]: the numbers of v in [low, high], which the k-th greatest is among */
    size_t count = n, before = 0; /* before: how many of v are above high */
    for (size_t round = 0; round < ROUNDS && count > SHORT && low < high; round++) {
        int32_t a, b;
        size_t up;
        guess(&a, &b, from, count, k - before);
        a = a > low ? a : low, b = b < high ? b : high;
        const size_t kept = between(scratch, &up, from, count, a, b);
        up += before;
        if (up < k && k - up <= kept) low = a, high = b, count = kept, before = up;
        else { /* the guess was wrong */
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
    size_t greater, equal, cut = n; /* from index cut on, numbers that equal the least are not taken */
    shift_all(score, shift, n);
    const int32_t least = least_of(&greater, &equal, score, n, k, scratch);
    if (greater + equal > k) {
        cut = 0;
        for (size_t left = k - greater; left; cut++) left -= score[cut] == least;
    }
    const size_t count = list(at, score, 0, cut, least - 1);
    list(at + count, score, cut, n, least);
}
