/* Numbers of nodes and the names of their devices. See side.h. */
#include "lab/simulate/side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* name: NAME[xN], or the beginning of one name alone. stack "": its own. */
static bt_err load(bt_profile *ret, const char *name, const char *stack, bt_fault *fault)
{
    char text[400];
    const char *found = NULL, *at = *stack ? "@" : "";
    size_t matches = 0, len = strlen(name);
    (void)snprintf(text, sizeof text, "%s%s%s", name, at, stack);
    bt_err e = bt_profile_load(ret, text, fault);
    if (e < 0 && len) {
        for (size_t i = 0; bt_profile_name(i); i++)
            if (strncmp(bt_profile_name(i), name, len) == 0) {
                found = bt_profile_name(i);
                matches++;
            }
        (void)snprintf(text, sizeof text, "%s%s%s", matches == 1 ? found : "", at, stack);
        if (matches == 1) e = bt_profile_load(ret, text, fault);
    }
    if (e == BT_OK && !ret->time.is_given)
        return bt_fail(fault, BT_EARG,
                       "profile '%s' has no time, so no node can be simulated on it; h100, m2-ultra-gpu and "
                       "hexagon-v75 have one ('baton profiles' lists all)",
                       ret->name);
    return e;
}

bt_err tool_simulate_device(bt_profile *ret, const char *name, bt_fault *fault)
{
    char device[256];
    const char *stack = strchr(name, '/') ? NULL : strchr(name, '@');
    if (!stack || strlen(name) >= sizeof device) return load(ret, name, "", fault);
    (void)snprintf(device, sizeof device, "%.*s", (int)(stack - name), name);
    return load(ret, device, stack + 1, fault);
}

/* Digits at *at, at most TOOL_SIMULATE_NODES. False: none, or more. */
static bool number(uint32_t *ret, const char **at)
{
    const char *c = *at;
    uint32_t v = 0;
    if (*c < '0' || *c > '9') return false;
    for (; *c >= '0' && *c <= '9'; c++)
        if ((v = v * 10 + (uint32_t)(*c - '0')) > TOOL_SIMULATE_NODES) return false;
    *ret = v;
    *at = c;
    return true;
}

/* DEVICE[@STACK][@MODEL]. */
static bt_err place(tool_simulate_group *g, const char *option, char *device, bt_fault *fault)
{
    char *first = strchr(device, '@'), *second = first ? strchr(first + 1, '@') : NULL;
    bt_fault why = {""};
    if (first) *first++ = 0;
    if (second) *second++ = 0;
    if ((first && !*first) || (second && (!*second || strchr(second, '@'))) ||
        (first && strlen(first) >= sizeof g->model_name) ||
        (second && strlen(second) >= sizeof g->model_name))
        return bt_fail(fault, BT_EARG, "--%s: behind '%.60s@' stand a stack, a model, or STACK@MODEL", option,
                       device);
    bt_err e = load(&g->profile, device, "", &why);
    if (e == BT_OK && first && (second || bt_profile_has_stack(&g->profile, first))) {
        e = load(&g->profile, device, first, &why);
        (void)snprintf(g->stack, sizeof g->stack, "%.31s", first);
        first = second;
    }
    if (first) (void)snprintf(g->model_name, sizeof g->model_name, "%.63s", first);
    return e < 0 ? bt_fail(fault, e, "--%s: %.250s", option, why.text) : BT_OK;
}

static bt_err part(tool_simulate_group *g, const char *option, const char *text, size_t len,
                   const char *usual, bt_fault *fault)
{
    char all[160], device[320];
    const char *at = all;
    const bool fits = len > 0 && len < sizeof all;
    (void)snprintf(all, sizeof all, "%.*s", fits ? (int)len : 0, text);
    bool ok = fits && number(&g->least, &at);
    g->most = g->least;
    if (ok && strncmp(at, "..", 2) == 0) {
        at += 2;
        ok = number(&g->most, &at) && g->least <= g->most;
    }
    if (!ok || (*at && *at != ':' && *at != '@') || strcmp(at, ":") == 0)
        return bt_fail(
            fault, BT_EARG,
            "--%s '%.*s': how many nodes and of what, as in 8:h100, or 1..64:h100 to try them, and @MODEL "
            "where there are several; at most %d nodes",
            option, len < 60 ? (int)len : 60, text, TOOL_SIMULATE_NODES);
    if (*at == ':') (void)snprintf(device, sizeof device, "%s", at + 1);
    else (void)snprintf(device, sizeof device, "%.150s%s", usual, at); /* 8@MODEL */
    return place(g, option, device, fault);
}

bt_err tool_simulate_side_read(tool_simulate_side *ret, const char *option, const char *text,
                               const char *usual, bt_fault *fault)
{
    tool_simulate_side s = {.len = 0};
    if (strcmp(text, "0") == 0) {
        *ret = s;
        return BT_OK;
    }
    for (const char *at = text;;) {
        const size_t len = strcspn(at, ",");
        if (s.len == TOOL_SIMULATE_GROUPS)
            return bt_fail(fault, BT_EARG, "--%s: has more than %d kinds of nodes", option,
                           TOOL_SIMULATE_GROUPS);
        const bt_err e = part(&s.group[s.len++], option, at, len, usual, fault);
        if (e < 0) return e;
        if (!at[len]) break;
        at += len + 1;
    }
    *ret = s;
    return BT_OK;
}
