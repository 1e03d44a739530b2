/* Who gets the same salt, and by which secret. */
#include "crypto/prefix_salt.h"
#include "crypto/keys_generate.h"
#include "tests/helpers/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[TEMP_FOLDER_BYTES];

static const char *in_dir(const char *name)
{
    static char path[400];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static int make_dir(void **s)
{
    (void)s;
    return temp_folder_new(dir) ? 0 : -1;
}

static int remove_dir(void **s)
{
    (void)s;
    static const char *const files[] = {"gateway-0.secret", "gateway-1.secret", "decode.secret", "allow",
                                        "salt"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) unlink(in_dir(files[i]));
    return rmdir(dir);
}

/* owner: "" all keys, else a name, or behind '!' a key. */
static bt_prompt_salt salt_for(const bt_prefix_secret *s, const char *owner, const char *cache_salt)
{
    const bool is_key = *owner == '!';
    const bt_prefix_owner of = bt_prefix_owner_of(s, !is_key, owner + is_key, strlen(owner + is_key));
    return bt_prefix_salt(s, *owner ? &of : NULL, cache_salt);
}

static bt_prompt_salt salt_by(const char *name)
{
    bt_prefix_secret *s = NULL;
    bt_fault f = {""};
    if (bt_prefix_secret_open(&s, name ? dir : NULL, name, &f) < 0) fail_msg("%s", f.text);
    const bt_prompt_salt salt = salt_for(s, "alice", "");
    bt_prefix_secret_close(s);
    return salt;
}

static bool same(bt_prompt_salt a, bt_prompt_salt b) { return memcmp(&a, &b, sizeof a) == 0; }

static void each_key_and_each_cache_salt_has_a_salt_of_its_own_and_neither_of_them_none(void **s)
{
    (void)s;
    static const char *const texts[][2] = {{"alice", ""},  {"bob", ""},     {"alice", "x"}, {"bob", "x"},
                                           {"", "x"},      {"", "bob"},     {"alicex", ""}, {"a", "licex"},
                                           {"!alice", ""}, {"!alice", "x"}, {"", "xx"}};
    enum { TEXTS = sizeof texts / sizeof *texts };
    bt_prompt_salt salts[TEXTS];
    bt_prefix_secret *secret = NULL;
    const bt_prompt_salt none = {{0}};
    assert_int_equal(bt_prefix_secret_open(&secret, NULL, NULL, NULL), BT_OK);
    for (size_t i = 0; i < TEXTS; i++) {
        salts[i] = salt_for(secret, texts[i][0], texts[i][1]);
        assert_true(same(salts[i], salt_for(secret, texts[i][0], texts[i][1])));
        assert_false(same(salts[i], none));
        for (size_t k = 0; k < i; k++) assert_false(same(salts[i], salts[k]));
    }
    assert_true(same(salt_for(secret, "", ""), none));
    bt_prefix_secret_close(secret);
    bt_prefix_secret_close(NULL);
}

static void gateways_of_one_deployment_make_the_same_salts_and_others_do_not(void **s)
{
    (void)s;
    static const char *const first[] = {"gateway-0", "decode", NULL}, *const more[] = {"gateway-1", NULL};
    struct stat st;
    assert_int_equal(bt_keys_generate(dir, first, NULL), BT_OK);
    assert_int_equal(stat(in_dir("salt"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    const bt_prompt_salt before = salt_by("gateway-0");
    assert_int_equal(bt_keys_generate(dir, more, NULL), BT_OK);
    assert_true(same(salt_by("gateway-0"), before)); /* the file is never written over */
    assert_true(same(salt_by("gateway-1"), before));
    assert_false(same(salt_by(NULL), before));
    assert_false(same(salt_by(NULL), salt_by(NULL)));
    /* without the file each gateway has its own, and a restart changes nothing */
    assert_int_equal(unlink(in_dir("salt")), 0);
    assert_false(same(salt_by("gateway-0"), before));
    assert_true(same(salt_by("gateway-0"), salt_by("gateway-0")));
    assert_false(same(salt_by("gateway-0"), salt_by("gateway-1")));
}

static void nodes_get_no_such_file(void **s)
{
    (void)s;
    static const char *const names[] = {"decode", NULL};
    assert_int_equal(bt_keys_generate(dir, names, NULL), BT_OK);
    assert_int_not_equal(access(in_dir("salt"), F_OK), 0);
}

static void a_secret_that_others_can_read_or_that_is_none_is_refused(void **s)
{
    (void)s;
    static const char *const names[] = {"gateway-0", NULL};
    bt_prefix_secret *secret = NULL;
    bt_fault f = {""};
    assert_int_equal(bt_keys_generate(dir, names, NULL), BT_OK);
    assert_int_equal(chmod(in_dir("salt"), 0640), 0);
    assert_int_equal(bt_prefix_secret_open(&secret, dir, NULL, &f), BT_EAUTH);
    assert_non_null(strstr(f.text, "mode 0640"));
    assert_int_equal(chmod(in_dir("salt"), 0600), 0);
    assert_int_equal(truncate(in_dir("salt"), 39), 0);
    assert_int_equal(bt_prefix_secret_open(&secret, dir, NULL, &f), BT_EFORMAT);
    assert_null(secret);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_key_and_each_cache_salt_has_a_salt_of_its_own_and_neither_of_them_none),
        cmocka_unit_test_setup_teardown(gateways_of_one_deployment_make_the_same_salts_and_others_do_not,
                                        make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(nodes_get_no_such_file, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_secret_that_others_can_read_or_that_is_none_is_refused, make_dir,
                                        remove_dir),
    };
    return cmocka_run_group_tests_name("prefix_salt", tests, NULL, NULL);
}
