#ifndef TESTS_TOY_PROFILE_H
#define TESTS_TOY_PROFILE_H
#include "device/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An engine so fast that only what `time` says counts: fields of a profile's "time", as in "\"sync_ns\": 500". */
static inline bt_profile toy_profile(const char *name, const char *time)
{
    char json[1024];
    bt_profile p;
    bt_fault fault = {""};
    snprintf(json, sizeof json,
             "{\"name\": \"%s\", \"title\": \"made up\", \"operators\": {\"linear\": [\"int8\", \"int16\"]}, "
             "\"time\": {\"stack\": \"none\", \"f16_ops_per_us\": 1000000000, "
             "\"memory_bytes_per_us\": 1000000000, %s}}",
             name, time);
    if (bt_profile_parse(&p, json, strlen(json), &fault) == BT_OK) return p;
    fprintf(stderr, "toy_profile: %s\n", fault.text);
    abort();
}
#endif
