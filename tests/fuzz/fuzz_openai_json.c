/* Any bytes as the body of a request: no crash, and either a whole request or an error that can be written as
 * JSON. The first byte chooses chat or completions. */
#include "gateway/api/answer.h"
#include "gateway/api/openai.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const char *const names[] = {"tiny"};
    const bt_defaults defaults = bt_defaults_of(NULL, NULL, NULL);
    const gw_openai_limits limits = {names, 1, 512, 4, &defaults};
    if (len == 0) return 0;
    gw_openai_request r;
    gw_openai_error err;
    if (gw_openai_parse(&r, &err, (data[0] & 1) != 0, (const char *)data + 1, len - 1, &limits) < 0) {
        bt_buf out;
        bt_buf_init(&out, 1 << 16);
        if (gw_answer_error(&out, &err) < 0) abort();
        bt_buf_done(&out);
        return 0;
    }
    if (r.is_chat ? r.messages == 0 : !r.prompt == !r.prompt_ids) abort();
    for (size_t i = 0; i < r.stops; i++)
        if (r.stop_len[i] == 0) abort();
    for (size_t i = 0; i < r.prompt_ids_len; i++)
        if (r.prompt_ids[i] < 0 || r.prompt_ids[i] >= 512) abort();
    gw_openai_request_done(&r);
    return 0;
}
