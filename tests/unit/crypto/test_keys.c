/* Key files: round trips, modes, and refusals that name the file and never the secret. */
#include "crypto/keys.h"
#include "crypto/keys_generate.h"
#include "crypto/peer_auth.h"
#include "tests/helpers/temp_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[TEMP_FOLDER_BYTES];

static char *in_dir(const char *name)
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
    static const char *const files[] = {
        "gateway.secret", "prefill-2.secret", "east.secret", "decode-1.secret", "allow", "salt"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) unlink(in_dir(files[i]));
    return rmdir(dir);
}

static void write_file(const char *name, const char *text, mode_t mode)
{
    FILE *f = fopen(in_dir(name), "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    chmod(in_dir(name), mode);
}

/* The pair printed in the description of CURVE in libzmq's manual. */
static void derives_the_public_key_that_libzmq_documents(void **s)
{
    (void)s;
    bt_keys k;
    write_file("gateway.secret", "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6\n", 0600);
    assert_int_equal(bt_keys_load(&k, dir, "gateway", NULL), BT_OK);
    assert_string_equal(k.public_key, "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7");
    bt_keys_wipe(&k);
    assert_int_equal(k.secret_key[0], 0);
}

static unsigned roles_of(const char *name)
{
    bt_peer_allow *allow = NULL;
    bt_keys k;
    uint8_t raw[32];
    assert_int_equal(bt_keys_load(&k, dir, name, NULL), BT_OK);
    assert_int_equal(bt_keys_from_z85(raw, k.public_key, NULL), BT_OK);
    assert_int_equal(bt_peer_auth_load(&allow, dir, NULL), BT_OK);
    const unsigned roles = bt_peer_auth_roles(allow, raw);
    if (roles) assert_string_equal(bt_peer_auth_name(allow, raw), name);
    bt_peer_auth_free(allow);
    bt_keys_wipe(&k);
    return roles;
}

static void generates_a_cluster_and_adds_to_it(void **s)
{
    (void)s;
    static const char *const names[] = {"gateway", "prefill-2", NULL}, *const more[] = {
                                                                           "decode-1:decode,prefill",
                                                                           "east:decode", NULL};
    struct stat st;
    bt_fault f = {""};
    assert_int_equal(bt_keys_generate(dir, names, &f), BT_OK);
    assert_int_equal(stat(in_dir("prefill-2.secret"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(roles_of("prefill-2"), BT_PEER_PREFILL);
    assert_int_equal(bt_keys_generate(dir, more, &f), BT_OK);
    assert_int_equal(roles_of("gateway"), BT_PEER_GATEWAY);
    assert_int_equal(roles_of("prefill-2"), BT_PEER_PREFILL);
    assert_int_equal(roles_of("decode-1"), BT_PEER_DECODE | BT_PEER_PREFILL);
    assert_int_equal(roles_of("east"), BT_PEER_DECODE);
}

static void never_writes_over_anything(void **s)
{
    (void)s;
    static const char *const names[] = {"gateway", "prefill-2", NULL}, *const again[] = {"decode-1",
                                                                                         "prefill-2", NULL};
    bt_keys before, after;
    bt_fault f = {""};
    assert_int_equal(bt_keys_generate(dir, names, &f), BT_OK);
    assert_int_equal(bt_keys_load(&before, dir, "prefill-2", NULL), BT_OK);
    assert_int_equal(bt_keys_generate(dir, again, &f), BT_EARG);
    assert_non_null(strstr(f.text, "is there already"));
    assert_int_not_equal(access(in_dir("decode-1.secret"), F_OK), 0);
    assert_int_equal(bt_keys_load(&after, dir, "prefill-2", NULL), BT_OK);
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(unlink(in_dir("prefill-2.secret")), 0); /* its line still stands: a name means one key */
    assert_int_equal(bt_keys_generate(dir, again, &f), BT_EARG);
    assert_non_null(strstr(f.text, "names 'prefill-2' already"));
    static const char *const twice[] = {"east:decode", "east:prefill", NULL};
    assert_int_equal(bt_keys_generate(dir, twice, &f), BT_EARG);
}

static void the_only_secret_is_ours_and_of_several_one_must_be_named(void **s)
{
    (void)s;
    static const char *const first[] = {"gateway", NULL}, *const second[] = {"prefill-2", NULL};
    bt_keys k, named;
    bt_fault f = {""};
    assert_int_equal(bt_keys_load(&k, dir, NULL, &f), BT_EAUTH);
    assert_non_null(strstr(f.text, "baton keygen"));
    assert_int_equal(bt_keys_generate(dir, first, &f), BT_OK);
    assert_int_equal(bt_keys_load(&k, dir, NULL, &f), BT_OK);
    assert_int_equal(bt_keys_load(&named, dir, "gateway", &f), BT_OK);
    assert_memory_equal(&k, &named, sizeof k);
    assert_int_equal(bt_keys_generate(dir, second, &f), BT_OK);
    assert_int_equal(bt_keys_load(&k, dir, NULL, &f), BT_EAUTH);
    assert_non_null(strstr(f.text, "'gateway', 'prefill-2'"));
    assert_non_null(strstr(f.text, "--key NAME"));
}

static void refuses_a_list_that_others_can_write(void **s)
{
    (void)s;
    static const char *const first[] = {"gateway", NULL}, *const second[] = {"prefill-2", NULL};
    static const mode_t bad[] = {0664, 0646, 0666};
    bt_peer_allow *allow = NULL;
    bt_fault f = {""};
    assert_int_equal(bt_keys_generate(dir, first, &f), BT_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(chmod(in_dir("allow"), bad[i]), 0);
        assert_int_equal(bt_peer_auth_load(&allow, dir, &f), BT_EAUTH);
        assert_non_null(strstr(f.text, "can be written by others"));
        assert_int_equal(bt_keys_generate(dir, second, &f), BT_EAUTH);
    }
    assert_int_equal(chmod(in_dir("allow"), 0644), 0);
    assert_int_equal(chmod(dir, 0777), 0);
    assert_int_equal(bt_peer_auth_load(&allow, dir, &f), BT_EAUTH);
    assert_int_equal(chmod(dir, 0755), 0);
    assert_int_equal(bt_peer_auth_load(&allow, dir, &f), BT_OK);
    write_file("allow", "nonsense\n", 0644);
    assert_int_equal(bt_peer_auth_reload(allow, dir, &f), BT_EFORMAT);
    assert_int_equal(bt_peer_auth_count(allow), 1); /* as it was */
    write_file("allow", "# nobody\n", 0644);
    assert_int_equal(bt_peer_auth_reload(allow, dir, &f), BT_OK);
    assert_int_equal(bt_peer_auth_count(allow), 0);
    bt_peer_auth_free(allow);
}

static void refuses_a_secret_that_others_can_read(void **s)
{
    (void)s;
    bt_keys k = {"untouched", ""};
    bt_fault f;
    write_file("gateway.secret", "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6\n", 0644);
    assert_int_equal(bt_keys_load(&k, dir, "gateway", &f), BT_EAUTH);
    assert_non_null(strstr(f.text, "mode 0644"));
    assert_string_equal(k.public_key, "untouched");
}

static void never_prints_a_secret_it_refuses(void **s)
{
    (void)s;
    bt_keys k;
    bt_fault f;
    write_file("gateway.secret", "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh", 0600);
    assert_int_equal(bt_keys_load(&k, dir, "gateway", &f), BT_EFORMAT);
    assert_null(strstr(f.text, "JTKV"));
    write_file("gateway.secret", "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh66", 0600);
    assert_int_equal(bt_keys_load(&k, dir, "gateway", &f), BT_EFORMAT);
    write_file("gateway.secret", "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{L~6", 0600);
    assert_int_equal(bt_keys_load(&k, dir, "gateway", &f), BT_EFORMAT);
}

static void refuses_names_that_leave_the_directory(void **s)
{
    (void)s;
    static const char *const bad[] = {"",   "../gateway", "a/b",
                                      "-x", "Gateway",    "abcdefghijklmnopqrstuvwxyz0123456"};
    bt_keys k;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(bt_keys_load(&k, dir, bad[i], NULL), BT_EARG);
    static const char *const wrong[] = {"nobody",    "../x:decode", "decode-1:king",
                                        "decode-1:", ":decode",     "decode-1:decode:prefill"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *const specs[] = {"gateway", wrong[i], NULL};
        assert_int_equal(bt_keys_generate(dir, specs, NULL), BT_EARG);
    }
    assert_int_not_equal(access(in_dir("gateway.secret"), F_OK), 0);
}

static void says_how_to_make_missing_keys(void **s)
{
    (void)s;
    bt_keys k;
    bt_fault f;
    assert_int_equal(bt_keys_load(&k, dir, "decode", &f), BT_EIO);
    assert_non_null(strstr(f.text, "baton keygen"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(derives_the_public_key_that_libzmq_documents, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(generates_a_cluster_and_adds_to_it, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(never_writes_over_anything, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(the_only_secret_is_ours_and_of_several_one_must_be_named, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(refuses_a_list_that_others_can_write, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(refuses_a_secret_that_others_can_read, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(never_prints_a_secret_it_refuses, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(refuses_names_that_leave_the_directory, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(says_how_to_make_missing_keys, make_dir, remove_dir),
    };
    return cmocka_run_group_tests_name("keys", tests, NULL, NULL);
}
