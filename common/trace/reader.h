#ifndef BT_TRACE_READER_H
#define BT_TRACE_READER_H
#include <stdio.h>
#include "base/err.h"
#include "trace/row.h"

/* Reads traces of LLM requests row by row, in the order of their file, in memory that does not grow with it: one piece
 * of the file (trace/input.h), and for some formats a table of ids with a limit (trace/map.h).
 *
 * format     a row is                                            arrival                         tokens of a block
 * mooncake   a JSON object: timestamp, input_length,             ms                              not said
 *            output_length, hash_ids; also Dynamo's session_id
 *            and delay (ms after the turn before), and its names
 *            input_tokens, output_tokens, created_time, delay_ms;
 *            model, its name; key, the name of an API key
 * azure      CSV: TIMESTAMP,ContextTokens,GeneratedTokens        wall clock, of 2023 and of 2024 -
 *            and more columns, which are not read
 * burstgpt   CSV: Timestamp,Model,Request tokens,Response tokens, s                              -
 *            Total tokens,Log Type[,Session ID,Elapsed time];
 *            0 response tokens: it failed
 * splitwise  CSV: request_id,request_type,application_id,        s                               -
 *            arrival_timestamp,batch_size,prompt_size,token_size
 *            of request_type 2 and batch_size 1
 * vidur      CSV: [arrived_at,]num_prefill_tokens,               s                               -
 *            num_decode_tokens
 * bailian    a JSON object: chat_id, parent_chat_id (-1: none),  s                               16
 *            timestamp, input_length, output_length, hash_ids
 * sharegpt   a JSON object in a list or by itself: id, and       none                            -
 *            conversations of from ("human", "gpt") and value.
 *            A request for each answer; its prompt is all before.
 *            Lengths need a tokenizer: bt_trace_options.count
 * servegen   CSV without a header: second, requests/s, CV,       none: bt_trace_next_rate gives  -
 *            Weibull or Gamma or nothing, shape, scale            rows, bt_trace_next refuses
 * lengths    whole numbers between blanks, commas, line ends:    none                            -
 *            prompt lengths
 * baton      what a gateway captured (trace/capture_format.h)    us                              64
 *
 * Cells of CSV may be quoted (RFC 4180), counts may be whole floats, ids may be numbers of any sign and size or texts
 * (bt_trace_json_id): docs/traces.md has the rules.
 *
 * Sources: research of each project's own files; mooncake: FAST25-release/ and crate dynamo-data-gen, azure:
 * AzurePublicDataset, burstgpt: HPMLL/BurstGPT, splitwise: splitwise-sim traces/, vidur: data/processed_traces,
 * bailian: qwen-bailian-usagetraces-anon, servegen: the class ClientPool.
 *
 * A capture that was rotated is its parts FILE.1, FILE.2, .. and FILE, read in that order. */
typedef enum bt_trace_format {
    BT_TRACE_AUTO,
    BT_TRACE_MOONCAKE,
    BT_TRACE_AZURE,
    BT_TRACE_BURSTGPT,
    BT_TRACE_SPLITWISE,
    BT_TRACE_VIDUR,
    BT_TRACE_BAILIAN,
    BT_TRACE_SHAREGPT,
    BT_TRACE_SERVEGEN,
    BT_TRACE_LENGTHS,
    BT_TRACE_BATON,
    BT_TRACE_FORMATS,
} bt_trace_format;
extern const char *const bt_trace_format_names[BT_TRACE_FORMATS + 1]; /* "auto", "mooncake", ..; ends with NULL */

typedef struct bt_trace bt_trace;
typedef struct bt_trace_options {
    bt_trace_format format; /* AUTO: recognised by the first line */
    bool skips_bad;         /* pass over bad rows and count them; else the first is an error */
    /* Counts the tokens of a text, for sharegpt. NULL: such a file is refused. */
    bt_err (*count)(void *ud, uint32_t *ret, const char *text, size_t len, bt_fault *fault);
    void *ud;
    /* The key pair that sealed captures were sealed to. NULL: sealed captures are refused. */
    const unsigned char *public_key, *secret_key; /* 32 bytes each; they live on */
} bt_trace_options;

/* Opens a path, "-" for stdin. BT_EIO; BT_EFORMAT: the first line fits no format, or the header lacks a column (a
 * format that the caller names is not compared with others); BT_EAUTH: sealed. */
bt_err bt_trace_open(bt_trace **ret, const char *path, const bt_trace_options *o, bt_fault *fault);
/* The same with an open stream; the caller closes it after bt_trace_close. */
bt_err bt_trace_begin(bt_trace **ret, FILE *f, const bt_trace_options *o, bt_fault *fault);
void bt_trace_close(bt_trace *t); /* NULL is fine */

/* The next row; *ret_is_end: there is none. BT_EFORMAT: a bad row, with words that say where; the next call goes on
 * behind it. Any other error ends the reading. */
bt_err bt_trace_next(bt_trace_row *ret, bool *ret_is_end, bt_trace *t, bt_fault *fault);

/* Rates of servegen: in [start_s, end_s) requests come at `rate` a second, with gaps of this family. The last row lasts
 * as long as the one before, or 600 s. */
typedef enum bt_trace_family { BT_TRACE_NO_GAPS, BT_TRACE_WEIBULL, BT_TRACE_GAMMA } bt_trace_family;
typedef struct bt_trace_rate {
    double start_s, end_s, rate, cv, shape, scale;
    bt_trace_family family; /* NO_GAPS: no request comes */
} bt_trace_rate;
bt_err bt_trace_next_rate(bt_trace_rate *ret, bool *ret_is_end, bt_trace *t, bt_fault *fault);

typedef struct bt_trace_facts {
    bt_trace_format format;
    uint64_t rows, bad;  /* rows given; rows skipped */
    char first_bad[256]; /* words about the first bad row */
    uint64_t torn_bytes; /* of captures: bytes of half-written records at the ends of files */
    uint64_t dropped;    /* of captures: requests that were not recorded */
    uint64_t starts;     /* of captures: times that a gateway began to record */
} bt_trace_facts;
bt_trace_facts bt_trace_look(const bt_trace *t);
#endif
