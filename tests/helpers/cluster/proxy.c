/* See proxy.h. */
#include "tests/helpers/cluster/proxy.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATH_BYTES = 512, OPTIONS_MAX = 60, LINE_BYTES = 65536 };

static void must(bool ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "proxy: %s\n", what);
    abort();
}

const char *proxy_at(const proxy *p, const char *route)
{
    static char at[8][64];
    static unsigned next;
    char *ret = at[next++ % 8];
    const size_t n = strlen(route);
    const char *line = spawn_out(p->child);
    while (line && !(strncmp(line, route, n) == 0 && line[n] == ' '))
        line = (line = strchr(line, '\n')) ? line + 1 : NULL;
    must(line && sscanf(line + n, " %63s", ret) == 1, route);
    return ret;
}

proxy proxy_start(const char *const *options)
{
    char path[PATH_BYTES];
    const char *argv[OPTIONS_MAX + 3] = {path, "--json"};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    size_t n = 2;
    /* BUILD/tests/integration/THEME/test_x */
    const ssize_t len = readlink("/proc/self/exe", path, sizeof path - 32);
    must(len > 0, "where the test program is");
    path[len] = '\0';
    for (int up = 0; up < 3; up++) *strrchr(path, '/') = '\0';
    strcat(path, "/fault/proxy");
    while (*options && n < OPTIONS_MAX) argv[n++] = *options++;
    proxy p = {.child = spawn_start(argv), .orders = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    must(spawn_wait_out(p.child, "ready\n", spawn_patience(10000)), "it does not start");
    at.sin_port = htons((uint16_t)atoi(strchr(proxy_at(&p, "orders"), ':') + 1));
    must(p.orders >= 0 && connect(p.orders, (const struct sockaddr *)&at, sizeof at) == 0,
         "it takes no orders");
    return p;
}

static void ask(const proxy *p, const char *line, char *ret)
{
    size_t len = 0;
    must(send(p->orders, line, strlen(line), MSG_NOSIGNAL) == (ssize_t)strlen(line), line);
    while (!len || ret[len - 1] != '\n') {
        const ssize_t n = recv(p->orders, ret + len, LINE_BYTES - 1 - len, 0);
        must(n > 0, line);
        len += (size_t)n;
    }
    ret[len] = '\0';
}

void proxy_order(const proxy *p, const char *fmt, ...)
{
    char line[256], *answer = malloc(LINE_BYTES);
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(line, sizeof line - 1, fmt, ap);
    va_end(ap);
    must(answer && n > 0 && n < (int)sizeof line - 1, fmt);
    strcat(line, "\n");
    ask(p, line, answer);
    must(strcmp(answer, "ok\n") == 0, answer);
    free(answer);
}

json_t *proxy_figures(const proxy *p)
{
    char *answer = malloc(LINE_BYTES);
    must(answer != NULL, "memory");
    ask(p, "figures\n", answer);
    json_t *o = json_loads(answer, 0, NULL);
    must(o != NULL, answer);
    free(answer);
    return o;
}

json_int_t proxy_sum(const proxy *p, const char *figure)
{
    json_t *o = proxy_figures(p), *route;
    const char *name;
    json_int_t sum = 0;
    json_object_foreach(json_object_get(o, "routes"), name, route) {
        must(json_is_integer(json_object_get(route, figure)), figure);
        sum += json_integer_value(json_object_get(route, figure));
    }
    json_decref(o);
    return sum;
}

bool proxy_stop(proxy *p)
{
    close(p->orders);
    spawn_signal(p->child, SIGTERM);
    const int rc = spawn_wait(p->child, spawn_patience(5000));
    const char *figures = strstr(spawn_out(p->child), "ready\n");
    printf("proxy: %s", figures ? figures + 6 : "no figures\n");
    return rc == 0 && figures && figures[6] == '{';
}
