#ifndef TESTS_CLIENT_H
#define TESTS_CLIENT_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An HTTP client for tests, over libcurl: many exchanges at once, driven by whoever waits. Failures of the helper
 * itself abort. */
typedef struct client client;

void client_setup(void);
void client_cleanup(void);
/* A test's teardown: closes every connection. */
int client_teardown(void **state);

/* From now on exchanges present this API key; NULL: none, as at first and after each test. */
void client_use_key(const char *key);
void client_use_bare_key(const char *key); /* in X-Api-Key, as Anthropic's clients do */
/* The same for the address that they come from; NULL: any, as at first and after each test. */
void client_use_address(const char *address);
/* The same for the file of certificates that it trusts; NULL: the system's. Borrowed. */
void client_use_trust(const char *file);

/* Begins an exchange; nothing waits. len bytes of body are copied; NULL: a GET. */
client *client_begin(const char *url, const char *path, const void *body, size_t len);
client *client_post(const char *url, const char *path, const json_t *body);
client *client_get(const char *url, const char *path);
/* Closes the connection, finished or not. */
void client_end(client *c);

/* True when the whole answer has come within ms. False also when the connection failed or was cut. */
bool client_wait(client *c, int64_t ms);
/* True when the answer so far contains the text. */
bool client_wait_text(client *c, const char *text, int64_t ms);
/* Moves all exchanges on for a few milliseconds. */
void client_step(void);
bool client_is_over(const client *c); /* whole, failed or cut */

long client_status(const client *c);      /* 0: no answer came */
const char *client_body(const client *c); /* so far, NUL-terminated */
long client_retry_after(const client *c); /* -1: no such header */
int64_t client_ms(const client *c);       /* from the beginning to the end */
/* The body as JSON; a stream as the list of its events, [DONE] left out. NULL when it is not. Lives as long as c. */
json_t *client_json(client *c);
bool client_is_done(const client *c); /* the stream ended with [DONE] */
/* The text of a whole answer or of all chunks of a stream, chat or completion, NUL written as \0; the caller frees
 * it. */
char *client_text(client *c);
/* The error object of an answer, or the one that ended a stream; NULL when there is none. Lives as long as c. */
json_t *client_error(client *c);
/* The `baton` object, likewise. */
json_t *client_baton(client *c);
/* That of an answer which has come, status 200: a copy of the caller's. Ends the client; anything else aborts, with its
 * words. */
json_t *client_told(client *c);
#endif
