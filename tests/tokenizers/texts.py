"""The texts on which tokenizers are compared, the same as tests/unit/text/test_ids.c makes: code points alone, then
random texts. A linear congruential generator and a table of ranges make them."""
POINTS = 0x32000  # code points 0 .. POINTS, without surrogates
RANDOM = 10000
POINTS_A_BLOCK, RANDOM_A_BLOCK = 8192, 1000
# first code point, how many; a range that stands twice is drawn twice as often
RANGES = [(0x61, 26), (0x61, 26), (0x61, 26), (0x41, 26), (0x20, 1), (0x20, 1), (0x21, 15), (0x3A, 7), (0x30, 10),
          (0x09, 5), (0x27, 1), (0xA0, 0x1B0), (0x300, 112), (0x370, 0x190), (0x590, 0x170), (0x900, 0x80),
          (0x1100, 256), (0x2000, 0x70), (0x3000, 0x100), (0x4E00, 20902), (0xAC00, 11172), (0x1F300, 0x400),
          (0, 0x110000)]


def generator(seed=1):
    while True:
        seed = (seed * 6364136223846793005 + 1442695040888963407) & (2 ** 64 - 1)
        yield seed >> 33


def point(g):
    first, count = RANGES[next(g) % len(RANGES)]
    c = first + next(g) % count
    return 0xFFFD if 0xD800 <= c <= 0xDFFF else c


def texts():
    for c in range(POINTS):
        if not 0xD800 <= c <= 0xDFFF:
            yield chr(c)
    g = generator()
    for _ in range(RANDOM):
        yield "".join(chr(point(g)) for _ in range(1 + next(g) % 60))


def blocks():
    """How many texts each block has."""
    points = POINTS - 0x800
    for at in range(0, points, POINTS_A_BLOCK):
        yield min(POINTS_A_BLOCK, points - at)
    for _ in range(0, RANDOM, RANDOM_A_BLOCK):
        yield RANDOM_A_BLOCK
