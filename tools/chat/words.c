/* See words.h. */
#include "tools/chat/words.h"
#include "base/opt.h"
#include "tools/show.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct call {
    tool_talk *talk;
    const char *argument; /* without blanks around it; "" where there is none */
    bool has_editor;
    FILE *out;
    tool_words_next next;
} call;

static bt_err do_help(call *c, bt_fault *fault);

static bt_err do_clear(call *c, bt_fault *fault)
{
    (void)fault;
    tool_talk_clear(c->talk);
    fprintf(c->out, "the conversation is forgotten%s\n",
            tool_talk_system(c->talk) ? "; the system message stays" : "");
    return BT_OK;
}

static bt_err do_system(call *c, bt_fault *fault)
{
    if (*c->argument)
        return tool_talk_set_system(c->talk, strcmp(c->argument, "-") ? c->argument : "", fault);
    const char *text = tool_talk_system(c->talk);
    if (!text) text = "there is no system message";
    tool_show(c->out, text, strlen(text));
    fputc('\n', c->out);
    return BT_OK;
}

static bt_err do_save(call *c, bt_fault *fault)
{
    const bt_err e = tool_talk_save(c->talk, c->argument, fault);
    if (e == BT_OK) fputs("saved\n", c->out);
    return e;
}

static bt_err do_model(call *c, bt_fault *fault)
{
    if (*c->argument) return tool_talk_set_model(c->talk, c->argument, fault);
    tool_talk_models *all = malloc(sizeof *all);
    if (!all) return bt_fail(fault, BT_ENOMEM, "out of memory for the models' names");
    const bt_err e = tool_talk_list(all, c->talk, fault);
    for (size_t i = 0; e == BT_OK && i < all->count; i++) {
        fputs(i == all->used ? "* " : "  ", c->out);
        tool_show(c->out, all->id[i], strlen(all->id[i]));
        fputc('\n', c->out);
    }
    free(all);
    return e;
}

static bt_err do_regenerate(call *c, bt_fault *fault)
{
    (void)fault;
    c->next = TOOL_WORDS_AGAIN;
    return BT_OK;
}

static bt_err do_exit(call *c, bt_fault *fault)
{
    (void)fault;
    c->next = TOOL_WORDS_LEAVE;
    return BT_OK;
}

static const struct word {
    const char *name, *argument; /* argument: NULL: none; "[X]" may be left out */
    const char *help;
    bt_err (*run)(call *c, bt_fault *fault);
} words[] = {
    {"help", NULL, "this list", do_help},
    {"clear", NULL, "forget the conversation; the system message stays", do_clear},
    {"system", "[TEXT]", "set the system message, '-' for none; without TEXT: show it", do_system},
    {"model", "[NAME]", "take another of the gateway's models; without NAME: list them", do_model},
    {"regenerate", NULL,
     "answer the last question again, in the old answer's place; the same with --seed or --temp 0",
     do_regenerate},
    {"save", "FILE", "write the conversation to a new file", do_save},
    {"exit", NULL, "leave", do_exit},
};
enum { WORDS = sizeof words / sizeof *words };

static bt_err do_help(call *c, bt_fault *fault)
{
    (void)fault;
    for (size_t i = 0; i < WORDS; i++) {
        char name[32];
        snprintf(name, sizeof name, "/%s %s", words[i].name, words[i].argument ? words[i].argument : "");
        fprintf(c->out, "  %-16s %s\n", name, words[i].help);
    }
    fputs("  //text           a message that begins with a slash\n"
          "A backslash at the end of a line goes on in the next line.\n"
          "\"\"\" begins a message of several lines, which \"\"\" at the end of one ends.\n",
          c->out);
    if (c->has_editor)
        fputs("So does Alt-Enter. A paste is one message, whatever its lines.\n"
              "Up and down: what was typed before; Ctrl-R searches it.\n",
              c->out);
    fputs("Ctrl-C stops an answer; at the prompt it clears the line.\n"
          "Ctrl-C twice, or Ctrl-D, leaves.\n",
          c->out);
    return BT_OK;
}

static const struct word *find(const char *name)
{
    for (size_t i = 0; i < WORDS; i++)
        if (strcmp(words[i].name, name) == 0) return &words[i];
    return NULL;
}

static bt_err unknown(const char *name, bt_fault *fault)
{
    const char *candidates[WORDS + 1] = {NULL};
    for (size_t i = 0; i < WORDS; i++) candidates[i] = words[i].name;
    const char *near = bt_opt_nearest(name, candidates);
    return bt_fail(fault, BT_EARG,
                   "not sent: there is no command /%.40s%s%s (/help lists them; // sends a slash)", name,
                   near ? "; did you mean /" : "", near ? near : "");
}

static bt_err run(call *c, const char *name, bt_fault *fault)
{
    const struct word *w = find(name);
    if (!w) return unknown(name, fault);
    if (*c->argument && !w->argument) return bt_fail(fault, BT_EARG, "/%s takes no words after it", w->name);
    if (!*c->argument && w->argument && w->argument[0] != '[')
        return bt_fail(fault, BT_EARG, "/%s needs %s", w->name, w->argument);
    return w->run(c, fault);
}

bt_err tool_words_do(tool_words_next *ret, const char **ret_text, tool_talk *t, const char *text,
                     bool has_editor, FILE *out, bt_fault *fault)
{
    call c = {.talk = t, .has_editor = has_editor, .out = out, .next = TOOL_WORDS_DONE};
    if (text[0] != '/' || text[1] == '/') {
        *ret_text = text + (text[0] == '/');
        *ret = TOOL_WORDS_SEND;
        return BT_OK;
    }
    char *line = strdup(text + 1);
    if (!line) return bt_fail(fault, BT_ENOMEM, "out of memory for a command");
    char *argument = line + strcspn(line, " \t\r\n"), *end = line + strlen(line);
    if (*argument) *argument++ = '\0';
    argument += strspn(argument, " \t\r\n");
    while (end > argument && isspace((unsigned char)end[-1])) *--end = '\0';
    c.argument = argument;
    const bt_err e = run(&c, line, fault);
    free(line);
    if (e == BT_OK) *ret = c.next;
    return e;
}
