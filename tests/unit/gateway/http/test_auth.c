/* API keys: which files are taken, and who may come in. */
#include "gateway/http/auth.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char path[] = "/tmp/baton-auth-XXXXXX";

static int make_file(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}
static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static bt_prefix_secret *prefix_secret; /* of the next load; NULL: none */

static void write_file(const char *text)
{
    const int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(close(fd), 0);
}

static bt_err load(gw_auth **ret, const char *text, bt_fault *f)
{
    write_file(text);
    return gw_auth_load(ret, path, prefix_secret, 0, f);
}

/* The name of the key that an Authorization header is taken for; "": none. */
static const char *who(gw_auth *a, const char *authorization)
{
    static char name[GW_KEY_NAME_BYTES];
    gw_key *k = gw_auth_take(a, authorization, NULL);
    (void)snprintf(name, sizeof name, "%s", k ? k->facts.name : "");
    gw_auth_give(k);
    return name;
}

static void lets_in_the_keys_of_the_file_and_nobody_else(void **state)
{
    (void)state;
    gw_auth *a;
    bt_fault f;
    assert_int_equal(load(&a, "# ours\n\nkey-one\r\nkey-two", &f), BT_OK);
    assert_string_equal(who(a, "Bearer key-one"), "key-1");
    assert_string_equal(who(a, "bearer key-two"), "key-2");
    static const char *const wrong[] = {"",        "Bearer ",       "Bearer key-on", "Bearer key-one1",
                                        "key-one", "Basic key-one", "Bearer # ours"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_string_equal(who(a, wrong[i]), "");
    assert_string_equal(who(a, NULL), "");
    char longer[GW_KEY_MAX_BYTES + 16] = "Bearer ";
    memset(longer + 7, 'k', GW_KEY_MAX_BYTES + 1);
    assert_string_equal(who(a, longer), "");
    gw_key *bare = gw_auth_take(a, NULL, "key-two"); /* as a header of its own has it */
    assert_string_equal(bare->facts.name, "key-2");
    gw_auth_give(bare);
    assert_null(gw_auth_take(a, NULL, "Bearer key-two"));
    gw_key *other = gw_auth_take(a, "Basic dTpw", "key-two"); /* a scheme that holds no key here */
    assert_non_null(other);
    gw_auth_give(other);
    assert_null(gw_auth_take(a, "Bearer key-three", "key-two"));
    assert_null(gw_auth_take(a, NULL, NULL));
    assert_null(gw_auth_take(a, NULL, longer + 7));
    gw_auth_free(a);
}

static void refuses_files_without_a_good_key(void **state)
{
    (void)state;
    gw_auth *a = NULL;
    bt_fault f;
    assert_int_equal(load(&a, "# nothing\n", &f), BT_EFORMAT);
    assert_int_equal(load(&a, "good\nbad key\n", &f), BT_EFORMAT);
    assert_non_null(strstr(f.text, "line 2"));
    assert_null(strstr(f.text, "bad key"));
    char *longest = malloc(GW_AUTH_MAX_FILE_BYTES + 2);
    assert_non_null(longest);
    memset(longest, 'a', GW_AUTH_MAX_FILE_BYTES + 1);
    longest[GW_AUTH_MAX_FILE_BYTES + 1] = 0;
    assert_int_equal(load(&a, longest, &f), BT_ELIMIT);
    free(longest);
    assert_int_equal(gw_auth_load(&a, "/nonexistent/key", NULL, 0, &f), BT_EIO);
    assert_null(a);
}

static void refuses_a_file_that_everybody_can_read(void **state)
{
    (void)state;
    gw_auth *a = NULL;
    bt_fault f;
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(load(&a, "key\n", &f), BT_EAUTH);
    assert_int_equal(chmod(path, 0600), 0);
}

static void finds_each_of_4096_keys(void **state)
{
    (void)state;
    gw_auth *a;
    bt_fault f;
    char *text = malloc(GW_KEYS_MAX * 48), line[64];
    size_t at = 0;
    assert_non_null(text);
    for (int i = 0; i < GW_KEYS_MAX; i++) at += (size_t)sprintf(text + at, "secret-%d name=n%d\n", i, i);
    assert_int_equal(load(&a, text, &f), BT_OK);
    assert_int_equal(gw_auth_count(a), GW_KEYS_MAX);
    for (int i = 0; i < GW_KEYS_MAX; i++) {
        char name[16];
        (void)sprintf(line, "Bearer secret-%d", i);
        (void)sprintf(name, "n%d", i);
        assert_string_equal(who(a, line), name);
    }
    assert_string_equal(who(a, "Bearer secret-4096"), "");
    gw_auth_free(a);
    free(text);
}

static void a_file_read_again_keeps_what_keys_of_the_same_name_took(void **state)
{
    (void)state;
    gw_auth *a;
    bt_fault f;
    assert_int_equal(load(&a, "old name=web requests-per-minute=2\ngone name=gone\n", &f), BT_OK);
    gw_key *web = gw_auth_take(a, "Bearer old", NULL), *gone = gw_auth_take(a, "Bearer gone", NULL);
    assert_int_equal(web->share, 1);
    assert_int_equal(gone->share, 2);
    assert_int_equal(gw_key_usage_arrive(&web->usage, 0).limit, GW_KEY_FINE);
    assert_int_equal(gw_key_usage_arrive(&web->usage, 0).limit, GW_KEY_FINE);
    write_file("fresh name=fresh\nnew role=admin name=web requests-per-minute=2 weight=7\n");
    assert_int_equal(gw_auth_reload(a, path, 0, &f), BT_OK);
    assert_int_equal(gw_auth_count(a), 2);
    assert_string_equal(who(a, "Bearer old"), "");
    assert_string_equal(who(a, "Bearer gone"), "");
    assert_string_equal(who(a, "Bearer new"), "web");
    gw_key *same = gw_auth_take(a, "Bearer new", NULL);
    assert_ptr_equal(same, web);
    assert_int_equal(web->facts.role, GW_KEY_ADMIN);
    assert_int_equal(web->facts.weight, 7);
    assert_int_equal(gw_key_usage_arrive(&web->usage, 0).limit, GW_KEY_REQUESTS);
    assert_string_equal(gone->facts.name, "gone"); /* whoever holds it may go on */
    assert_int_equal(gw_auth_at(a, 0)->share, 3);  /* never a number that another had */
    gw_auth_give(same);
    gw_auth_give(gone);
    gw_auth_give(web);
    gw_auth_free(a);
}

static bt_prefix_owner owner_of(gw_auth *a, const char *authorization)
{
    gw_key *k = gw_auth_take(a, authorization, NULL);
    assert_non_null(k);
    const bt_prefix_owner owner = k->owner;
    gw_auth_give(k);
    return owner;
}

static bool is_same_owner(bt_prefix_owner a, bt_prefix_owner b) { return memcmp(&a, &b, sizeof a) == 0; }

/* A line that is taken out gives its place in the file, and with it a name like key-1, to the next key. */
static void a_key_without_a_name_takes_nothing_over_from_the_one_whose_place_it_gets(void **state)
{
    (void)state;
    gw_auth *a;
    bt_fault f;
    assert_int_equal(bt_prefix_secret_open(&prefix_secret, NULL, NULL, &f), BT_OK);
    assert_int_equal(load(&a, "one\ntwo\nthree name=key-0\n", &f), BT_OK);
    const bt_prefix_owner one = owner_of(a, "Bearer one"), two = owner_of(a, "Bearer two"),
                          three = owner_of(a, "Bearer three");
    assert_false(is_same_owner(one, two) || is_same_owner(one, three) || is_same_owner(two, three));
    gw_key *first = gw_auth_take(a, "Bearer one", NULL), *second = gw_auth_take(a, "Bearer two", NULL);
    write_file("two\nfour name=key-0\n");
    assert_int_equal(gw_auth_reload(a, path, 0, &f), BT_OK);
    assert_string_equal(who(a, "Bearer two"), "key-1");
    gw_key *again = gw_auth_take(a, "Bearer two", NULL);
    assert_ptr_equal(again, second);
    assert_true(again != first && again->share == 2);
    assert_true(is_same_owner(owner_of(a, "Bearer two"), two));
    assert_true(is_same_owner(owner_of(a, "Bearer four"), three)); /* a name is kept with what is its */
    write_file("five\nfour name=key-2\ntwo name=key-1x\n");
    assert_int_equal(gw_auth_reload(a, path, 0, &f), BT_OK);
    assert_false(is_same_owner(owner_of(a, "Bearer five"), two) ||
                 is_same_owner(owner_of(a, "Bearer five"), one));
    assert_false(is_same_owner(owner_of(a, "Bearer two"), two)); /* it has a name now */
    gw_auth_give(first);
    gw_auth_give(second);
    gw_auth_give(again);
    gw_auth_free(a);
    bt_prefix_secret_close(prefix_secret);
    prefix_secret = NULL;
}

static void a_bad_file_read_again_changes_nothing(void **state)
{
    (void)state;
    gw_auth *a;
    bt_fault f;
    assert_int_equal(load(&a, "one name=x weight=3\n", &f), BT_OK);
    static const char *const bad[] = {"", "two name=x weight=0\n", "two name=y\ntwo name=z\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_file(bad[i]);
        assert_int_equal(gw_auth_reload(a, path, 0, &f), BT_EFORMAT);
        assert_string_equal(who(a, "Bearer one"), "x");
        assert_string_equal(who(a, "Bearer two"), "");
        assert_int_equal(gw_auth_at(a, 0)->facts.weight, 3);
    }
    gw_auth_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lets_in_the_keys_of_the_file_and_nobody_else),
        cmocka_unit_test(finds_each_of_4096_keys),
        cmocka_unit_test(a_file_read_again_keeps_what_keys_of_the_same_name_took),
        cmocka_unit_test(a_key_without_a_name_takes_nothing_over_from_the_one_whose_place_it_gets),
        cmocka_unit_test(a_bad_file_read_again_changes_nothing),
        cmocka_unit_test(refuses_files_without_a_good_key),
        cmocka_unit_test(refuses_a_file_that_everybody_can_read),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
