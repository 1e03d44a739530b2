/* Which pages are there is asked of the system (mincore). */
#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGES = 8 };

static size_t page_bytes(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static unsigned char *map(void)
{
    unsigned char *m =
        mmap(NULL, PAGES * page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(m != MAP_FAILED);
    return m;
}

/* One bit for each page that is there. */
static unsigned there(unsigned char *m)
{
    unsigned char in[PAGES];
    unsigned bits = 0;
    assert_int_equal(mincore(m, PAGES * page_bytes(), in), 0);
    for (unsigned i = 0; i < PAGES; i++) bits |= (in[i] & 1u) << i;
    return bits;
}

static bool can_populate(void)
{
    unsigned char *m = map();
    const bool can = madvise(m, page_bytes(), 23 /* MADV_POPULATE_WRITE */) == 0;
    munmap(m, PAGES * page_bytes());
    return can;
}

static void pages_are_there_and_what_they_held_stays(void **s)
{
    (void)s;
    if (!can_populate()) skip();
    unsigned char *m = map();
    assert_int_equal(there(m), 0);
    m[3 * page_bytes() - 1] = 7;                     /* page 2 */
    bt_memory_ready(m + 3 * page_bytes() - 1, 2, 2); /* pages 2 and 3 */
    assert_int_equal(there(m), 0x0c);
    assert_int_equal(m[3 * page_bytes() - 1], 7);
    assert_int_equal(m[3 * page_bytes()], 0);
    munmap(m, PAGES * page_bytes());
}

static void no_more_than_asked_for(void **s)
{
    (void)s;
    if (!can_populate()) skip();
    unsigned char *m = map();
    bt_memory_ready(m, 0, SIZE_MAX);
    bt_memory_ready(m, PAGES * page_bytes(), 0);
    assert_int_equal(there(m), 0);
    bt_memory_ready(m, PAGES * page_bytes(), 2 * page_bytes());
    assert_int_equal(there(m), 0x03);
    bt_memory_ready(m, PAGES * page_bytes(), SIZE_MAX);
    assert_int_equal(there(m), 0xff);
    munmap(m, PAGES * page_bytes());
}

static void memory_that_cannot_be_written_is_passed_over(void **s)
{
    (void)s;
    unsigned char *m = map();
    assert_int_equal(mprotect(m, PAGES * page_bytes(), PROT_NONE), 0);
    bt_memory_ready(m, page_bytes(), page_bytes());
    munmap(m, PAGES * page_bytes());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_there_and_what_they_held_stays),
        cmocka_unit_test(no_more_than_asked_for),
        cmocka_unit_test(memory_that_cannot_be_written_is_passed_over),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
