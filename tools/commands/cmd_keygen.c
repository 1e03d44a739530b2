/* baton keygen: the keys of a whole cluster, or of what joins it, in one directory. */
#include "crypto/keys_generate.h"
#include "tools/options.h"
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNSET = -1, COUNT_MAX = 1000, NAME_BYTES = 32 };

typedef struct config {
    int64_t gateway, prefill, decode;
    bool json;
} config;
/* The arguments of bt_keys_generate: as they are, counted names in `made`. */
typedef struct list {
    const char **spec;
    char (*made)[NAME_BYTES];
    size_t len, made_len;
} list;

static const bt_opt opts[] = {
    {.group = "Keys", .name = "gateways", .value = "N", BT_OPT_AT(config, gateway), .type = BT_OPT_INT,
     .def = "-1", .lo = UNSET, .hi = COUNT_MAX,
     .help = "keys named gateway-0, gateway-1, ...; one is named gateway; -1: one where no NAME is given"},
    {.group = "Keys", .name = "prefill-keys", .value = "N", BT_OPT_AT(config, prefill), .type = BT_OPT_INT,
     .def = "-1", .lo = UNSET, .hi = COUNT_MAX,
     .help = "keys named prefill-0, prefill-1, ...; -1: one where no NAME is given"},
    {.group = "Keys", .name = "decode-keys", .value = "N", BT_OPT_AT(config, decode), .type = BT_OPT_INT,
     .def = "-1", .lo = UNSET, .hi = COUNT_MAX,
     .help = "keys named decode-0, decode-1, ...; -1: one where no NAME is given"},
    {.of = &tool_output_opts, .name = "json", BT_OPT_AT(config, json),
     .help = "one JSON object on stdout: directory, names"},
};

const bt_opt_program tool_keygen_program = {
    .name = "baton keygen",
    .summary = "make the CURVE keys of a cluster: a secret for each process and one allow file",
    .usage = "DIR [NAME[:ROLE[,ROLE]] ...] [options]",
    .normal = "baton keygen keys --prefill-keys 2 --decode-keys 2",
    .opts = opts,
    .opt_count = BT_OPT_COUNT(opts),
    .args_min = 1,
    .args_max = 1 + COUNT_MAX,
    .args_name = "DIR",
};

static void add(list *l, const char *role, int64_t count, bool is_one_bare)
{
    for (int64_t i = 0; i < count; i++) {
        char *name = l->made[l->made_len++];
        if (is_one_bare && count == 1) snprintf(name, NAME_BYTES, "%s", role);
        else snprintf(name, NAME_BYTES, "%s-%d", role, (int)i);
        l->spec[l->len++] = name;
    }
}

static int print(const config *c, const char *dir, const list *l)
{
    if (c->json) {
        json_t *names = json_array();
        for (size_t i = 0; i < l->len; i++)
            (void)json_array_append_new(names, json_pack("s#", l->spec[i], (int)strcspn(l->spec[i], ":")));
        return tool_print_json("keygen", json_pack("{s:s, s:o}", "directory", dir, "names", names));
    }
    printf("wrote to %s:", dir);
    for (size_t i = 0; i < l->len; i++) printf(" %.*s.secret", (int)strcspn(l->spec[i], ":"), l->spec[i]);
    printf(", allow\ngive each machine its own NAME.secret and the allow file, the same everywhere, and "
           "those of "
           "gateways the file salt too;\nstart every program with --keys DIR;\n"
           "programs that run already read the allow file again when they get SIGHUP\n");
    return bt_opt_flush() != 0;
}

int tool_keygen_run(int argc, char **argv)
{
    config c;
    bt_opt_args args;
    bt_fault fault = {""};
    list l = {0};
    int rc = bt_opt_start(&args, &tool_keygen_program, argc, argv, &c);
    if (rc >= 0) return rc;
    const int64_t unset = args.count > 1 ? 0 : 1;
    l.spec = calloc(args.count + 3 * COUNT_MAX, sizeof *l.spec);
    l.made = calloc(3 * COUNT_MAX, sizeof *l.made);
    bt_err e = l.spec && l.made ? BT_OK : bt_fail(&fault, BT_ENOMEM, "out of memory for the names of keys");
    if (e == BT_OK) {
        add(&l, "gateway", c.gateway == UNSET ? unset : c.gateway, true);
        add(&l, "prefill", c.prefill == UNSET ? unset : c.prefill, false);
        add(&l, "decode", c.decode == UNSET ? unset : c.decode, false);
        for (size_t i = 1; i < args.count; i++) l.spec[l.len++] = args.args[i];
        e = bt_keys_generate(args.args[0], l.spec, &fault);
    }
    rc = e < 0 ? tool_fail("keygen", &fault) : print(&c, args.args[0], &l);
    free(l.spec);
    free(l.made);
    bt_opt_done(&args);
    return rc;
}
