#ifndef BT_TRACE_PRIVATE_H
#define BT_TRACE_PRIVATE_H
#include <jansson.h>
#include "trace/fields.h"
#include "trace/input.h"
#include "trace/map.h"
#include "trace/reader.h"

/* Private to common/trace: a reader's state, and the reader of each family of formats. */
enum {
    BT_TRACE_MAX_COLUMNS = 64,
    BT_TRACE_MAX_HASHES = 1 << 20, /* blocks of a prompt */
    BT_TRACE_MAX_TURNS = 4096,     /* messages of one conversation */
};

struct bt_trace {
    bt_trace_options o;
    bt_trace_input in;
    FILE *own; /* to close; NULL: the caller's */
    bt_trace_facts facts;
    bool has_base; /* wall clocks: the time of the first row */
    int64_t base_us;
    char session[BT_TRACE_MAX_NAME + 1], model[BT_TRACE_MAX_NAME + 1], key[BT_TRACE_MAX_NAME + 1];
    uint64_t *hash;
    size_t hash_cap;
    struct { /* the meaning of each column */
        uint8_t meaning[BT_TRACE_MAX_COLUMNS];
        size_t len;
    } csv;
    bt_trace_map chats; /* bailian: from a chat to the first chat of its session */
    struct {            /* sharegpt: what is left of a conversation */
        json_t *talk;
        size_t turn;
        uint64_t tokens;
    } share;
    struct { /* lengths: what is left of a line; both NULL at its end */
        const char *at, *end;
    } list;
    struct { /* servegen: the row read last */
        bt_trace_rate row;
        bool has_row;
        double width_s;
    } rate;
    struct {
        char *path;    /* of a capture with parts; NULL: one stream */
        unsigned part; /* number of the next part to open; 0: FILE itself is open, or there is only one part */
        bool has_first;
        int64_t first_us, start_us; /* since 1970: start of the first row's capture, and of this record's */
        uint8_t *plain;             /* a record without its seal */
        bt_trace_captured captured;
        int32_t *ids; /* prompt and answer */
        size_t ids_cap;
    } cap;
};

bt_err bt_trace_csv_header(bt_trace *t, bt_trace_format format, char *line, size_t len, bt_fault *fault);
bt_err bt_trace_csv_next(bt_trace_row *ret, bool *is_end, bt_trace *t, bt_fault *fault);
bt_err bt_trace_json_next(bt_trace_row *ret, bool *is_end, bt_trace *t, bt_fault *fault);
bt_err bt_trace_share_next(bt_trace_row *ret, bool *is_end, bt_trace *t, bt_fault *fault);
bt_err bt_trace_list_next(bt_trace_row *ret, bool *is_end, bt_trace *t, bt_fault *fault);
bt_err bt_trace_rate_line(bt_trace_rate *ret, bool *is_end, bt_trace *t, bt_fault *fault);
bt_err bt_trace_capture_next(bt_trace_row *ret, bool *is_end, bt_trace *t, bt_fault *fault);
/* The format with this header; BT_TRACE_AUTO: no known format. */
bt_trace_format bt_trace_csv_format(const char *line, size_t len);
/* json_loadb, but a whole number that does not fit 64 bits with a sign becomes the text of its digits: ids have 64 bits
 * without one, or more. */
json_t *bt_trace_json_load(const char *text, size_t len, size_t flags, json_error_t *why);
/* An id as a number: a whole number (16.0 too; a negative one plus 2^64), a text of such digits, or else the hash of
 * the text. False: it is none. */
bool bt_trace_json_id(uint64_t *ret, const json_t *value);
/* A session's name: a text of 1 to 256 bytes, or a whole number as its digits. False: it is none. */
bool bt_trace_json_name(char ret[BT_TRACE_MAX_NAME + 1], const json_t *value);
/* Room for n ids in t->hash. */
bt_err bt_trace_room(bt_trace *t, size_t n, bt_fault *fault);
#endif
