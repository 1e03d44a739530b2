#ifndef TESTS_DIALECT_CASE_H
#define TESTS_DIALECT_CASE_H
#include "gateway/api/dialect.h"

/* Requests and answers of one dialect, for its unit test. Failures of an expectation end the test. */

/* The request that body makes; the caller ends it with gw_ask_done. The model's names are tiny and alias, and its
 * vocabulary has 512 tokens. */
gw_ask dialect_good(const gw_dialect *d, const char *body);
/* body is refused with this status, this field, and words that the message holds. */
void dialect_bad(const gw_dialect *d, const char *body, int status, const char *param, const char *words);
/* The messages of r, as JSON, are these. */
void dialect_talks(const gw_ask *r, const char *messages);

/* An answer of the model tiny, of 5 prompt tokens, at 1700000000.25 s, written at 1700000001.5 s. Ended with
 * gw_dialect_answer_done. */
gw_answer dialect_answer(const gw_dialect *d);
/* Its end: 5 tokens of prompt, of which 2 were found, 3 of answer; 4 ms in queues, 6 of prompt, 8 of answer, 20 in all.
 */
gw_answer_report dialect_report(const char *said, const char *thoughts, gw_ending ending);
/* The whole answer is this text. */
void dialect_whole(const gw_dialect *d, const gw_answer_report *r, const char *want);
/* A stream of the thoughts of r, where there are some, and of what is said, in one piece each, is this text. */
void dialect_stream(const gw_dialect *d, const gw_answer_report *r, const char *want);
/* The body of an error of this status is this text. */
void dialect_error(const gw_dialect *d, int status, const char *want);
#endif
