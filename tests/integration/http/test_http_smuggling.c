/* Requests whose end can be seen in two places, each with another request hidden where only one of the two
 * readings finds it. The ways to write them are those that public lists have (defparam/smuggler,
 * PortSwigger's http-request-smuggler): a Transfer-Encoding that is nearly one, beside a Content-Length;
 * lengths that are nearly numbers; both twice. Sent to the real gateway, directly. The hidden request must
 * never be answered, and every connection must come to its end. BATON_ATTACK=N: every byte in every place (a
 * few of them if not set). */
#include "tests/helpers/cluster/cluster.h"
#include "tests/helpers/cluster/raw_http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { READY_MS = 60000, ANSWER_MS = 10000, TEXT_BYTES = 16384, LINE_BYTES = 256 };

static spawn *gateway;
static char url[CLUSTER_ADDRESS_BYTES], control[CLUSTER_ADDRESS_BYTES];
static size_t sent, refused;

/* Where one byte, of many values, stands: `^` is it. In a name a letter makes another name of it, and in the
 * value of another header what can be seen is a part of that: nobody reads those in two ways. */
static const struct place {
    const char *line;
    bool in_name, in_other;
} places[] = {
    {"Transfer-Encoding:^chunked", false, false},        {"Transfer-Encoding^: chunked", true, false},
    {"^Transfer-Encoding: chunked", true, false},        {"Transfer-Encoding: chunked^", false, false},
    {"X: X^Transfer-Encoding: chunked", false, true},    {"Transfer-Encoding: chunked^X: X", false, false},
    {"X: X\r^Transfer-Encoding: chunked", false, false}, {"X: X^\nTransfer-Encoding: chunked", false, false},
    {"Transfer-Encoding: chunked\r^X: X", false, false}, {"Transfer-Encoding: chunked^\nX: X", false, false},
    {"^Transfer-Encoding^: chunked", true, false},       {"Transfer-Encoding^:^chunked", true, false},
    {"Transfer-Encoding:^chunked^", false, false},       {"Transfer-Encoding: ch^unked", false, false},
};

static bool is_plain(const struct place *p, int c)
{
    if (p->in_other) return c == '\t' || (c >= ' ' && c != 0x7f);
    return p->in_name && c &&
           ((c | 32) >= 'a' && (c | 32) <= 'z' ? true : strchr("0123456789!#$%&'*+-.^_`|~", c) != NULL);
}

static const unsigned char few[] = {0x00, 0x01, 0x04, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x1f,
                                    0x20, 0x22, 0x2c, 0x5f, 0x7f, 0x85, 0xa0, 0xad, 0xff};

static const char *const codings[] = {
    "Transfer-Encoding: chunked",
    "Transfer-Encoding:  chunked",
    "TrAnSFer-EnCODinG: cHuNkeD",
    "TRANSFER-ENCODING: CHUNKED",
    "Transfer Encoding: chunked",
    "Transfer Encoding:chunked",
    "Transfer_Encoding: chunked",
    "Transfer-Encoding : chunked",
    "Transfer-Encoding\t:\tchunked",
    "Transfer\\Encoding: chunked",
    "Transfer-Encoding: chunked, cow",
    "Transfer-Encoding: cow, chunked",
    "Transfer-Encoding: cow chunked bar",
    "Transfer-Encoding: identity, chunked",
    "Transfer-Encoding: chunked, identity",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding: chunk",
    "Transfer-Encoding: \"chunked\"",
    "Transfer-Encoding: 'chunked'",
    "Transfer-Encoding: chunked;q=1",
    "Transfer-Encoding:\n chunked",
    "Transfer-Encoding:\r\n chunked",
    "Transfer-Encoding:\r\n \r\n chunked",
    "Transfer-Encoding: cow\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: cow",
    "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nTransfer-encoding: identity",
    "Foo: bar\r\n Transfer-Encoding: chunked",
    "Foo: bar\r\n\tTransfer-Encoding: chunked",
    "Transfer-\r\n Encoding: chunked",
    "Transfer\r-Encoding: chunked",
    "X:X\rTransfer-Encoding: chunked",
    "X:X\nTransfer-Encoding: chunked",
    "X: Y\r\n\rTransfer-Encoding: chunked",
    "Content-Encoding: chunked",
    "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked",
    "TE: trailers\r\nTransfer-Encoding: chunked",
};

/* `%zu` is the length of all that follows. */
static const char *const lengths[] = {
    "Content-Length: +%zu",
    "Content-Length: -%zu",
    "Content-Length: 0x%zx",
    "Content-Length: %zue0",
    "Content-Length: %zu.0",
    "Content-Length: 0, %zu",
    "Content-Length: %zu, 0",
    "Content-Length: %zu ",
    "Content-Length: %zu\t",
    "Content-Length : %zu",
    "Content-Length\t: %zu",
    " Content-Length: %zu",
    "Content_Length: %zu",
    "Content Length: %zu",
    "Content-Length: \r\n %zu",
    "Content-\r\n Length: %zu",
    "X: y\nContent-Length: %zu",
    "X: y\rContent-Length: %zu",
    "Content-Length: 0\r\nContent-Length: %zu",
    "Content-Length: %zu\r\nContent-Length: 0",
    "Content-Length: %zu\r\nContent-Length: %zu",
    "Content-Length: \"%zu\"",
    "Content-Length: 18446744073709551616%zu",
    "Content-Length: %zu\r\n Foo: bar",
    "Content-Length: 0\r\n%zu",
    "Expect: 100-continue\r\nContent-Length : %zu",
    "Expect: x\r\nContent-Length: +%zu",
};

static const char hidden[] = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
static const char last[] = "GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

/* Sends it, and a last request after which the gateway must close. must_refuse: only one answer may come. */
static void attack(const char *bytes, size_t len, bool must_refuse)
{
    static char text[TEXT_BYTES];
    const int fd = raw_dial(url);
    assert_true(fd >= 0);
    const bool is_whole = raw_say(fd, bytes, len) && raw_say(fd, last, sizeof last - 1);
    const bool has_ended = raw_hear_end(fd, text, sizeof text, spawn_patience(ANSWER_MS));
    const bool is_open = strstr(text, "/last") != NULL;
    (void)close(fd);
    (void)is_whole; /* it may close before it took all */
    sent++;
    refused += !is_open;
    if (has_ended && !strstr(text, "/smuggled") && !(must_refuse && is_open)) return;
    printf("sent: ");
    for (size_t i = 0; i < len; i++) printf(bytes[i] < ' ' || bytes[i] > '~' ? "\\x%02x" : "%c", bytes[i]);
    fail_msg("%s: %s", !has_ended ? "hangs" : is_open ? "went on" : "smuggled", text);
}

/* A head with `line` in it, as its first or its last. */
static size_t head(char *ret, size_t size, const char *line, size_t line_len, bool is_first, const char *more)
{
    char *at = ret;
    at += snprintf(at, size, "POST /v1/completions HTTP/1.1\r\n%s", is_first ? "" : "Host: x\r\n");
    if (!is_first) at += snprintf(at, size - (size_t)(at - ret), "%s", more);
    memcpy(at, line, line_len);
    at += line_len;
    at += snprintf(at, size - (size_t)(at - ret), "\r\n%s%s\r\n", is_first ? "Host: x\r\n" : "",
                   is_first ? more : "");
    return (size_t)(at - ret);
}

/* Hidden behind the last chunk, for who reads the coding; and in a chunk, for who reads the length. */
static void attack_by_coding(const char *line, size_t line_len)
{
    char bytes[4096], more[64];
    for (int is_first = 0; is_first < 2; is_first++) {
        (void)snprintf(more, sizeof more, "Content-Length: %zu\r\n", sizeof hidden - 1 + 5);
        size_t len = head(bytes, sizeof bytes, line, line_len, is_first, more);
        len += (size_t)snprintf(bytes + len, sizeof bytes - len, "0\r\n\r\n%s", hidden);
        attack(bytes, len, false); /* not a coding at all: the length counts, and the body is no JSON */
        len = head(bytes, sizeof bytes, line, line_len, is_first, "Content-Length: 4\r\n");
        len += (size_t)snprintf(bytes + len, sizeof bytes - len, "%02zx\r\n%s\r\n0\r\n\r\n",
                                sizeof hidden - 1, hidden);
        attack(bytes, len, true);
    }
}

static void no_transfer_encoding_that_is_nearly_one_hides_a_request(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof codings / sizeof *codings; i++)
        attack_by_coding(codings[i], strlen(codings[i]));
}

static void no_byte_in_any_place_of_it_hides_a_request(void **state)
{
    (void)state;
    const bool is_all = getenv("BATON_ATTACK") != NULL;
    for (size_t p = 0; p < sizeof places / sizeof *places; p++)
        for (unsigned i = 0; i < (is_all ? 256 : sizeof few); i++) {
            const int byte = is_all ? (int)i : few[i];
            char line[LINE_BYTES];
            const size_t len = strlen(places[p].line);
            if (is_plain(&places[p], byte)) continue;
            for (size_t k = 0; k < len; k++)
                line[k] = (char)(places[p].line[k] == '^' ? byte : places[p].line[k]);
            attack_by_coding(line, len);
        }
}

static void no_length_that_is_nearly_one_hides_a_request(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int is_first = 0; is_first < 2; is_first++) {
            char bytes[4096], line[LINE_BYTES];
            const size_t n = sizeof hidden - 1;
            size_t at = 0;
            for (const char *c = lengths[i]; *c; c++) {
                if (strncmp(c, "%zu", 3) == 0 || strncmp(c, "%zx", 3) == 0) {
                    at += (size_t)(c[2] == 'u' ? snprintf(line + at, sizeof line - at, "%zu", n)
                                               : snprintf(line + at, sizeof line - at, "%zx", n));
                    c += 2;
                } else line[at++] = *c;
            }
            size_t len = head(bytes, sizeof bytes, line, at, is_first, "");
            len += (size_t)snprintf(bytes + len, sizeof bytes - len, "%s", hidden);
            attack(bytes, len, true);
        }
}

/* Who answers without reading the body must not take it for a request. */
static void no_body_that_nobody_wants_becomes_a_request(void **state)
{
    static const char *const lines[] = {"GET /health",       "GET /nowhere", "HEAD /v1/models",
                                        "DELETE /v1/models", "OPTIONS /",    "POST /v1/nodes/x/role",
                                        "GET /metrics",      "POST /health", "GET /v1/models?a=b"};
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        for (int k = 0; k < 4; k++) {
            char bytes[2048];
            const int len = snprintf(bytes, sizeof bytes, "%s HTTP/1.1\r\nHost: x\r\n%s%s%zu\r\n\r\n%s",
                                     lines[i], k & 1 ? "Expect: 100-continue\r\n" : "",
                                     k & 2 ? "Content-Encoding: br\r\nContent-Length: " : "Content-Length: ",
                                     sizeof hidden - 1, hidden);
            attack(bytes, (size_t)len, false);
        }
}

/* Whatever a chunk is made of, nothing behind a chunked body is read as a request. */
static void nothing_behind_a_chunked_body_becomes_a_request(void **state)
{
    static const char *const bodies[] = {
        "0\r\n\r\n",
        "2\r\n{}\r\n0\r\n\r\n",
        "2;\n{}\r\n0\r\n\r\n",
        "2;a=b\n{}\n0\n\n",
        "2\n{}\n0\n\n",
        "0x2\r\n{}\r\n0\r\n\r\n",
        "+2\r\n{}\r\n0\r\n\r\n",
        "2 \r\n{}\r\n0\r\n\r\n",
        "02\r\n{}0\r\n\r\n",
        "0\r\nX: y\r\n\r\n",
        "0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "ffffffffffffffff2\r\n{}\r\n0\r\n\r\n",
        "0;\r\n\r\n",
        "2\r{}\r\n0\r\n\r\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        char bytes[2048];
        const int len =
            snprintf(bytes, sizeof bytes,
                     "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%s%s",
                     bodies[i], hidden);
        attack(bytes, (size_t)len, true);
    }
}

static int start(void **state)
{
    (void)state;
    gateway = SPAWN("baton-gateway", "-m", spawn_tiny_model(1), "--port", "0", "--control",
                    "tcp://127.0.0.1:*", "--idle-timeout", "5s");
    return cluster_find_gateway(url, control, gateway, spawn_patience(READY_MS)) ? 0 : -1;
}

static int stop(void **state)
{
    printf("%zu requests that two could read in two ways: %zu refused and closed, the others read in one\n",
           sent, refused);
    return !cluster_end(gateway, spawn_patience(10000)) || cluster_teardown(state) ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_transfer_encoding_that_is_nearly_one_hides_a_request),
        cmocka_unit_test(no_byte_in_any_place_of_it_hides_a_request),
        cmocka_unit_test(no_length_that_is_nearly_one_hides_a_request),
        cmocka_unit_test(no_body_that_nobody_wants_becomes_a_request),
        cmocka_unit_test(nothing_behind_a_chunked_body_becomes_a_request),
    };
    spawn_setup();
    client_setup();
    const int rc = cmocka_run_group_tests(tests, start, stop);
    client_cleanup();
    spawn_cleanup();
    return rc;
}
