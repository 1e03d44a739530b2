#ifndef TESTS_LAW_SERVER_H
#define TESTS_LAW_SERVER_H
#include <stdbool.h>
#include <stdint.h>

/* A server of the OpenAI API that takes known times, in a thread of the test: what measures servers is measured with
 * it. It takes prompts as token ids, computes them one after the other, and then writes one token of each answer a
 * step. A step that ends late does not make the next one late, so that the times hold in the mean on a busy machine.
 * Failures of the helper itself abort. */
typedef struct law {
    double fixed_ms, token_ms, square_us; /* of a prompt: fixed + token n + square n^2 */
    uint32_t least_rows, most_rows; /* n of token is padded to a power of two of these; above, to sums; 0: it is not */
    double step_ms, row_ms, position_us; /* of a step: step + row (batch - 1) + position of all contexts together */
} law;
double law_prompt_ms(const law *l, double tokens);
double law_step_ms(const law *l, double batch, double ctx);

/* The flaw of the server, from its request number `after` on (0: all). */
typedef enum law_flaw {
    LAW_NONE = 0,
    LAW_ERRORS,       /* 500 with an error object */
    LAW_STALLS,       /* says nothing, and keeps the connection */
    LAW_CLOSES,       /* closes the connection after the first token */
    LAW_NO_HTTP,      /* bytes that are no answer */
    LAW_NO_JSON,      /* events that are no JSON */
    LAW_LONG_PROMPTS, /* counts twice the tokens of a prompt */
    LAW_LONG_ANSWERS, /* counts more tokens than were asked for */
    LAW_SHORT_COUNTS, /* counts fewer than it sent */
    LAW_ONE_PIECE,    /* sends an answer's text at once, at its end */
    LAW_KEPT,         /* says that it had the prompt before */
} law_flaw;

typedef struct law_server law_server;
law_server *law_server_start(const law *l, law_flaw flaw, uint32_t after);
const char *law_server_url(const law_server *s);
/* How many completions it was asked for. */
uint32_t law_server_stop(law_server *s);
#endif
