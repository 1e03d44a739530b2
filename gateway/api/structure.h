#ifndef GW_STRUCTURE_H
#define GW_STRUCTURE_H
#include "gateway/api/ask.h"
#include "gateway/api/fields.h"

/* The texts that an answer may be: response_format, structured_outputs, guided_json and its like, grammar, json_schema.
 * One of them makes a program (grammar/program.h), which the nodes run. The last GW_STRUCTURES_KEPT programs, of at
 * most 256 KiB each, are kept under the hash of their source, so that another request with the source compiles nothing.
 */
enum { GW_STRUCTURES_KEPT = 64 };

/* Readers of fields; errors as of all fields. */
bt_err gw_structure_field(gw_reader *p, const gw_field *f, json_t *v);  /* response_format */
bt_err gw_structure_fields(gw_reader *p, const gw_field *f, json_t *v); /* structured_outputs */
bt_err gw_structure_json(gw_reader *p, const gw_field *f, json_t *v);   /* a schema: as JSON, or as text of JSON */
bt_err gw_structure_object(gw_reader *p, const gw_field *f, json_t *v); /* any JSON object, whatever v says */
bt_err gw_structure_regex(gw_reader *p, const gw_field *f, json_t *v);
bt_err gw_structure_grammar(gw_reader *p, const gw_field *f, json_t *v);
bt_err gw_structure_choice(gw_reader *p, const gw_field *f, json_t *v); /* guided_choice */

/* The programs that are kept. Any number of threads may use one. */
typedef struct gw_structures gw_structures;
gw_structures *gw_structures_new(void); /* NULL without memory */
void gw_structures_free(gw_structures *s);

/* Fills r->sampling.program where r->structure asks for one. With is_quick only from what is kept: BT_EAGAIN, without
 * words, where it is not. Otherwise within 0.2 s of a core. BT_EARG, a 400 that names the keyword, the byte or the
 * limit; BT_ENOMEM. */
bt_err gw_structures_compile(gw_structures *s, gw_ask *r, bool is_quick, gw_error *err);
#endif
