#ifndef BT_LAB_REPLAY_WIRE_H
#define BT_LAB_REPLAY_WIRE_H
#include "base/buf.h"
#include "lab/replay/plan.h"
#include "lab/replay/result.h"
#include "text/tokenizer.h"

/* Prompts of a wanted length, reproducible by a seed. They are made of words that are one token each, so that a text of
 * n of them is n tokens long. */
typedef struct tool_replay_words {
    char (*text)[32]; /* without the space before it */
    int32_t *id;      /* with it; NULL: no model is known, so that only texts can be made */
    size_t len;
} tool_replay_words;

enum { TOOL_REPLAY_LEAST_WORDS = 8, TOOL_REPLAY_MAX_WORDS = 8192 };

/* Finds words of a model's vocabulary: small ASCII letters behind a space, which are one token by themselves and behind
 * another word. Where there are fewer than 8 of them, all ordinary ids serve, and no texts can be made: text is then
 * NULL. `tok` NULL: the most common words of English. tool_replay_words_done after success and failure. */
bt_err tool_replay_words_find(tool_replay_words *ret, const bt_tokenizer *tok, bt_fault *fault);
void tool_replay_words_done(tool_replay_words *w);

/* The numbers of n words of a prompt, below w->len: from its blocks where it has hashes, from the shared prefix, else
 * from its own stream. Equal hashes at the same block, and equal streams, give equal words. A captured prompt has none.
 */
void tool_replay_words_draw(uint32_t *ret, size_t n, const tool_replay_plan *p, const tool_replay_item *item,
                            const tool_replay_words *w, uint64_t seed);

/* JSON: a list of the ids of n words; a text of them in quotes. The error stays in the buffer. */
void tool_replay_words_ids(bt_buf *out, const tool_replay_words *w, const uint32_t *word, size_t n);
void tool_replay_words_text(bt_buf *out, const tool_replay_words *w, const uint32_t *word, size_t n);

/* Requests to a server and its answers, as text. Pure. */

/* The features of a server, from lab/replay/probe.h. */
typedef struct tool_replay_dialect {
    bool takes_ids;    /* prompts as token ids; else as texts */
    bool ignores_eos;  /* ignore_eos, so that answers are as long as asked for */
    bool is_baton;     /* "baton": true adds times of the nodes, and /v1/status has their state */
    bool has_no_usage; /* its streams have no usage: lengths of text prompts rest on the measured ratio alone */
    double words_per_token, words_off; /* of texts: words = tokens * words_per_token + words_off */
    char model[256];                   /* "": none is named */
    uint32_t context_tokens;           /* 0: it does not say */
} tool_replay_dialect;

/* The words of a text prompt of `tokens` tokens; at least 1. */
size_t tool_replay_wire_words(const tool_replay_dialect *d, uint32_t tokens);

/* The body of a POST to /v1/completions. word: tool_replay_wire_words of them, or one a token where ids are taken;
 * NULL: the captured prompt of the item. The error stays in the buffer. */
void tool_replay_wire_body(bt_buf *out, const tool_replay_dialect *d, const tool_replay_plan *p,
                           const tool_replay_item *item, const tool_replay_words *w, const uint32_t *word, size_t n);

/* Turns such a body into a request for an answer in one piece, which has usage where streams have none. */
void tool_replay_wire_whole(bt_buf *body);

/* The state of one answer so far. */
typedef struct tool_replay_heard {
    bool has_usage, is_over;              /* is_over: the end came, with its reason */
    uint64_t text_hash;                   /* tool_replay_text_hash of the text so far */
    char failure[TOOL_REPLAY_KIND_BYTES]; /* "": none */
    char node[72];                        /* the node that computed the prompt; "": unknown */
    uint32_t chunks;                      /* number of the prompt's parts; 0: unknown */
    tool_replay_chunk chunk[TOOL_REPLAY_MAX_CHUNKS];
} tool_replay_heard;

/* One event of the stream, at now_us. True: the event had text; *ret_gap_us is then the time since the text before it,
 * or -1 for the first. An error, or anything but JSON, is a failure. */
bool tool_replay_wire_event(tool_replay_heard *h, tool_replay_record *to, int64_t *ret_gap_us, const char *data,
                            size_t len, int64_t now_us);
/* A name for an answer that is no stream: the code of its error object, else its type, else http_STATUS. */
void tool_replay_wire_failure(char ret[TOOL_REPLAY_KIND_BYTES], long status, const char *body, size_t len);
/* Reads an answer of /v1/status. False: it has another form. */
bool tool_replay_wire_status(tool_replay_sample *to, tool_replay_result *r, const char *body, size_t len);
#endif
