#ifndef TESTS_RAW_HTTP_H
#define TESTS_RAW_HTTP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes to and from an HTTP server, for what no client library would send. Failures of the helper itself abort. */

int raw_dial(const char *url); /* http://127.0.0.1:PORT; -1: not connected */
/* False: the other side took not all of it. */
bool raw_say(int fd, const void *bytes, size_t len);
/* Reads until the other side ends, or nothing came for ms. The bytes that fit are kept, with a 0 behind them. True: it
 * ended. */
bool raw_hear_end(int fd, char *ret, size_t size, int64_t ms);
/* The same until `words` came; true when they did. */
bool raw_hear(int fd, char *ret, size_t size, const char *words, int64_t ms);
size_t raw_count(const char *text, const char *words); /* how often they stand in it */
#endif
