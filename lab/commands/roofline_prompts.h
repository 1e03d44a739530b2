#ifndef BT_LAB_COMMANDS_ROOFLINE_PROMPTS_H
#define BT_LAB_COMMANDS_ROOFLINE_PROMPTS_H
#include <jansson.h>
#include "device/dims.h"

/* A prompt of TOOL_ROOFLINE_PROMPT tokens and the token behind it, of a shape on every profile with a time: first
 * token, joules of the prompt (null where the profile has no source, `of_tdp` where it is a bound), tokens a second of
 * both, the share of the int8 or FP16 peak and of the memory's. A device with programs has them of 16 to 256 rows in
 * w8a8, and weights of 8 bits in decode; one without runs a step, in FP16. A device that cannot hold the weights is
 * left out. */
enum { TOOL_ROOFLINE_PROMPT = 512 };
void tool_roofline_prompts(json_t *rows, const bt_dims *s);
#endif
