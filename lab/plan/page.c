/* The page, with the plan's object in it. */
#include "base/file.h"
#include "lab/page/page.h"
#include "lab/plan/report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char page[] =
#include "lab/plan/page.html.h"
    ;
bt_err tool_plan_page(const char *path, const json_t *object, bt_fault *fault)
{
    const size_t n = strlen(path), ending = strlen(".html");
    bt_file_new out = {.fd = -1};
    FILE *f = NULL;
    if (n <= ending || strcmp(path + n - ending, ".html"))
        return bt_fail(fault, BT_EARG, "'%.150s' must end in .html", path);
    bt_err e = bt_file_begin(&out, path, fault);
    if (e < 0) goto out;
    const int fd = dup(out.fd); /* fclose closes its own */
    if (!(f = fd < 0 ? NULL : fdopen(fd, "w"))) {
        if (fd >= 0) close(fd);
        e = bt_fail(fault, BT_EIO, "cannot open '%.150s': %s", path, strerror(errno));
        goto out;
    }
    const char *rest = tool_page_until(f, page, "@MADE_BY@\n");
    tool_page_made_by(f, json_object_get(object, "made_by"));
    rest = tool_page_until(f, rest, "@DATA@\n");
    bool ok = tool_page_json(f, object, JSON_REAL_PRECISION(9));
    fprintf(f, "\n%s", rest);
    ok = !ferror(f) && ok;
    if (fclose(f) != 0 || !ok) e = bt_fail(fault, BT_EIO, "cannot write '%.150s': %s", path, strerror(errno));
    else e = bt_file_keep(&out, 0644, fault);
out:
    bt_file_done(&out);
    return e;
}
