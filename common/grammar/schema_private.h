#ifndef BT_GRAMMAR_SCHEMA_PRIVATE_H
#define BT_GRAMMAR_SCHEMA_PRIVATE_H
#include "grammar/compile.h"

/* Terms: what has no schemas inside. A node each; errors in *fault. */
/* One character inside of quotes. */
uint32_t bt_schema_char(bt_syntax *s);
bt_err bt_schema_string(uint32_t *ret, bt_syntax *s, json_t *schema, uint32_t any_string, uint32_t any_char,
                        bt_fault *fault);
/* A count of a schema: a whole number from 0 on, `otherwise` where it is not there. */
bt_err bt_schema_count(uint32_t *ret, json_t *schema, const char *name, uint32_t otherwise, bt_fault *f);
/* A key in quotes that is none of an object's members. */
uint32_t bt_schema_other_key(bt_syntax *s, json_t *names);
/* With the bounds of the schema. */
bt_err bt_schema_integer(uint32_t *ret, bt_syntax *s, json_t *schema, bt_fault *fault);
bt_err bt_schema_number(uint32_t *ret, bt_syntax *s, json_t *schema, bt_fault *fault);

/* Joining: *ret is a new schema that allows what both allow; the caller's. Parts without $ref. */
bt_err bt_schema_merge(json_t **ret, json_t *a, json_t *b, bt_fault *fault);
bool bt_schema_is_note(const char *keyword); /* says nothing about values */
/* A value is of a type of JSON Schema. */
bool bt_schema_is_of(json_t *value, const char *type);
/* No value fits both, as far as their types, constants and required constants say. Parts without $ref. */
bool bt_schema_are_apart(json_t *a, json_t *b);
#endif
