#ifndef GW_ASK_H
#define GW_ASK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"
#include "gateway/api/error.h"
#include "model/defaults.h"
#include "text/chat.h"
#include "wire/msg.h"

/* The internal request: what a client asks for, whatever the dialect (dialect.h) in which it was said. Plain data, read
 * from JSON by the table of fields.h. Nothing is clamped but the length of the answer: any other value out of range is
 * an error that names the field. */
enum {
    GW_ASK_MAX_STOPS = 16,
    GW_ASK_MAX_STOP_BYTES = 256,
    GW_ASK_MAX_CACHE_SALT_BYTES = 256,
    GW_ASK_DEFAULT_COMPLETION_TOKENS = 16, /* of /v1/completions, as OpenAI's; others have --max-answer */
};

typedef struct gw_ask_limits {
    const char *const *names; /* accepted values of `model` */
    size_t names_len;
    uint32_t vocab;                     /* ids in a request are below it */
    uint32_t stop_ids_max;              /* of stop_token_ids */
    const bt_defaults *defaults;        /* of sampling, for fields that a request leaves out */
    const struct gw_model_facts *model; /* models.h; for what is asked about it */
} gw_ask_limits;

typedef enum gw_structure_form {
    GW_STRUCTURE_NONE = 0,
    GW_STRUCTURE_OBJECT,  /* any JSON object */
    GW_STRUCTURE_SCHEMA,  /* JSON of a schema */
    GW_STRUCTURE_REGEX,   /* a text that the whole answer matches */
    GW_STRUCTURE_CHOICE,  /* one of a list of texts */
    GW_STRUCTURE_GRAMMAR, /* GBNF */
    GW_STRUCTURE_CALLS,   /* calls of tools and nothing else: of bt_calls_schema */
} gw_structure_form;
typedef struct gw_structure { /* what the answer's text may be; structure.h makes a program of it */
    gw_structure_form form;
    char field[40];       /* that asks for it */
    struct json_t *value; /* a reference */
} gw_structure;

typedef struct gw_ask {
    const char *prompt_field; /* the dialect's name of what becomes the prompt, for errors; static text */
    bool is_chat;
    bool is_load;        /* nothing is asked for but that the model is loaded */
    bool is_unload;      /* keep_alive is 0, for a dialect that answers is_load by it */
    bt_chat_talk talk;   /* chat: in root's tree, without clock and limits; at least one message, and each has a role */
    bool tells_calls;    /* the dialect has words for calls of tools */
    bool has_no_calls;   /* tool_choice is "none" */
    bool must_call;      /* the answer is calls: tool_choice is "required", or names a tool */
    const char *call;    /* the tool that it names; NULL: any */
    bool is_single_call; /* parallel_tool_calls is false */
    const char *prompt;  /* completions: the text, or NULL where ids were given */
    size_t prompt_len;
    bool is_plain; /* completions: names of control tokens in the text are letters */
    int32_t *prompt_ids;
    size_t prompt_ids_len;
    uint32_t max_tokens;     /* 0: not given; more than any context holds: BT_MSG_MAX_PROMPT_TOKENS */
    uint32_t default_tokens; /* where it is not given; 0: --max-answer */
    bt_sampling sampling;    /* seed only where has_seed; bias and program are the request's own */
    gw_structure structure;
    bool has_seed, is_stream, has_usage_chunk;
    bool is_baton;    /* "baton": true, or an object of wishes for its nodes */
    int32_t priority; /* among requests of the same client: the lowest first */
    int policy;       /* gw_policy; 0: as the gateway is set */
    char prefer_prefill[BT_MSG_MAX_ID_BYTES + 1], prefer_decode[BT_MSG_MAX_ID_BYTES + 1]; /* node ids; "": any */
    const char *stop[GW_ASK_MAX_STOPS];                                                   /* not empty */
    size_t stop_len[GW_ASK_MAX_STOPS];
    size_t stops;
    int32_t stop_ids[BT_MSG_MAX_STOP_IDS];
    uint32_t stop_ids_len;
    /* Prefixes are shared with requests of this text alone; "" too. */
    char cache_salt[GW_ASK_MAX_CACHE_SALT_BYTES + 1];
    bool keeps_thoughts;  /* chat: thoughts stay in the answer's text, with their marks */
    bool hides_thoughts;  /* chat: the answer says that there are thoughts, and not which */
    bool ignores_eos;     /* only the request's stop ids end the answer, not the model's own */
    bt_sample_bias *bias; /* where sampling.bias points; NULL: none */
    uint8_t *program;     /* where sampling.program points, likewise */
    struct json_t *echo;  /* what answers repeat of it, an object; NULL: nothing */
    struct json_t *root;  /* private: holds the strings above */
} gw_ask;

void gw_ask_done(gw_ask *r);
/* Whether calls of tools are read from the answer. */
static inline bool gw_ask_wants_calls(const gw_ask *r) { return r->is_chat && r->talk.tools && !r->has_no_calls; }
/* Frees messages, prompt and stop strings, which are most of a request; the other fields stay. */
void gw_ask_drop_texts(gw_ask *r);

/* How many tokens an answer may have, and by which rule: "request", "context" (the room that the prompt leaves, where
 * more was asked for), "max-answer" (without max_tokens), "default" (a completion without max_tokens). */
typedef struct gw_bound {
    uint32_t tokens;
    const char *from;
    bool is_context; /* from is "context" */
} gw_bound;

/* The bound of this request in a context of ctx_tokens. BT_EARG (400 context_length_exceeded, both numbers in the
 * words) when the prompt leaves no room for one token. */
bt_err gw_ask_bound(gw_bound *ret, gw_error *err, const gw_ask *r, size_t prompt_tokens, uint32_t ctx_tokens,
                    uint32_t max_answer);
#endif
