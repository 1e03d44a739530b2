/* The system is asked which pages are there (mincore). Machines with little memory are folders of files. */
#include "base/memory.h"
#include "base/err.h"
#include "tests/helpers/temp_folder.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
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

/* qemu says that it has made the page, and has not. */
static bool can_populate(void)
{
    unsigned char *m = map();
    const bool can = madvise(m, page_bytes(), 23 /* MADV_POPULATE_WRITE */) == 0 && there(m) == 1;
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

/* ---- what is free ---- */

static char root[TEMP_FOLDER_BYTES];

static void put(const char *path, const char *text)
{
    char command[512];
    snprintf(command, sizeof command, "mkdir -p \"$(dirname '%s%s')\" && printf '%s' > '%s%s'", root, path,
             text, root, path);
    assert_int_equal(system(command), 0);
}

static void what_is_free_is_what_the_system_calls_available(void **s)
{
    (void)s;
    assert_true(temp_folder_new(root));
    assert_int_equal(bt_memory_free_under(root), 0); /* it does not say */
    put("/proc/meminfo", "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:   7000 kB\n");
    assert_int_equal(bt_memory_free_under(root), 7000 * 1024);
    put("/proc/meminfo", "MemAvailable: lots\n");
    assert_int_equal(bt_memory_free_under(root), 0);
    put("/proc/meminfo", "MemAvailable: 18446744073709551615 kB\n");
    assert_int_equal(bt_memory_free_under(root), 0);
    assert_int_equal(temp_folder_remove(root), 0);
    assert_true(bt_memory_free() > 0);
    bt_memory_set_free(12345);
    assert_int_equal(bt_memory_free(), 12345);
    bt_memory_set_free(0);
}

static void a_control_group_or_one_above_it_may_have_less(void **s)
{
    (void)s;
    assert_true(temp_folder_new(root));
    put("/proc/meminfo", "MemAvailable: 7000 kB\n");
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    put("/sys/fs/cgroup/a/b/memory.current", "4096\n");
    assert_int_equal(bt_memory_free_under(root), 7000 * 1024);
    put("/sys/fs/cgroup/a/memory.max", "3000000\n");
    put("/sys/fs/cgroup/a/memory.current", "1000000\n");
    assert_int_equal(bt_memory_free_under(root), 2000000);
    put("/sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 300000\nactive_file 100000\n");
    assert_int_equal(bt_memory_free_under(root), 2400000);
    put("/sys/fs/cgroup/a/b/memory.max", "5000\n");
    assert_int_equal(bt_memory_free_under(root), 904);
    put("/sys/fs/cgroup/a/b/memory.current", "9000\n");
    assert_int_equal(bt_memory_free_under(root), 1); /* nothing, which is not "unknown" */
    put("/proc/self/cgroup", "0::/../../a\n");
    assert_int_equal(bt_memory_free_under(root), 7000 * 1024);
    assert_int_equal(temp_folder_remove(root), 0);
}

static void control_groups_of_version_1_count_too(void **s)
{
    (void)s;
    assert_true(temp_folder_new(root));
    put("/proc/meminfo", "MemAvailable: 7000 kB\n");
    put("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/x\n");
    put("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1000000\n");
    put("/sys/fs/cgroup/memory/x/memory.usage_in_bytes", "400000\n");
    put("/sys/fs/cgroup/memory/x/memory.stat", "cache 1\ntotal_inactive_file 100000\n");
    assert_int_equal(bt_memory_free_under(root), 700000);
    assert_int_equal(temp_folder_remove(root), 0);
}

static void out_of_memory_names_the_limit_of_addresses_where_there_is_one(void **s)
{
    (void)s;
    struct rlimit before, limited;
    bt_fault f = {""};
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    limited = before;
    limited.rlim_cur = (rlim_t)1 << 50; /* more than anybody takes */
    assert_int_equal(setrlimit(RLIMIT_AS, &limited), 0);
    char of[300];
    memset(of, 'x', sizeof of - 1);
    of[sizeof of - 1] = 0;
    assert_int_equal(bt_fail(&f, BT_ENOMEM, "no room for %s", of), BT_ENOMEM);
    assert_int_equal(strncmp(f.text, "no room for xxx", 15), 0);
    const char *end = strstr(f.text, "; ulimit -v allows 1073741824 MiB of addresses, ");
    assert_non_null(end);
    assert_non_null(strstr(end, " are taken: 'ulimit -v unlimited' lifts it"));
    assert_int_equal(bt_fail_thread(&f, "a thread", EAGAIN), BT_ENOMEM);
    assert_non_null(strstr(f.text, "; ulimit -v allows"));
    assert_int_equal(bt_fail_thread(&f, "a thread", EPERM), BT_EIO);
    assert_null(strstr(f.text, "ulimit"));
    assert_int_equal(bt_fail(&f, BT_EIO, "broken"), BT_EIO);
    assert_string_equal(f.text, "broken");
    bt_memory_keep_stack();
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    if (before.rlim_cur != RLIM_INFINITY) return;
    (void)bt_fail(&f, BT_ENOMEM, "no room");
    assert_string_equal(f.text, "no room");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(out_of_memory_names_the_limit_of_addresses_where_there_is_one),
        cmocka_unit_test(pages_are_there_and_what_they_held_stays),
        cmocka_unit_test(no_more_than_asked_for),
        cmocka_unit_test(memory_that_cannot_be_written_is_passed_over),
        cmocka_unit_test(what_is_free_is_what_the_system_calls_available),
        cmocka_unit_test(a_control_group_or_one_above_it_may_have_less),
        cmocka_unit_test(control_groups_of_version_1_count_too),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
