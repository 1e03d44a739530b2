/* See edit.h. libedit does the editing. This file adds what libedit lacks: keys are read here, so that a
 * signal is never missed and a byte that is no UTF-8 is seen; pastes; Enter after a backslash; and the way
 * back from the history, because libedit cuts the line that it puts aside at 1,024 characters. */
#include "tools/chat/edit.h"
#include "text/utf8.h"
#include "tools/chat/paste.h"
#include "tools/chat/wide.h"
#include "tools/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

enum { HISTORY_ENTRIES = 1000, KEY_BYTES = 4096, SEARCH_MAX_CHARS = 1000, CAUGHT = 4 };
/* Keys that no terminal has: pushing one calls the function that it is bound to. */
#define KEY_TAKE   L"\033[99;1~"
#define KEY_SEARCH L"\033[99;2~"
/* Commands to a terminal: mark pastes, and do not. */
#define PASTE_ON  "\033[?2004h"
#define PASTE_OFF "\033[?2004l"

struct tool_edit {
    EditLine *el;
    HistoryW *history;
    FILE *screen;                   /* stderr, buffered */
    FILE *mute;                     /* where libedit's own complaints go */
    struct termios before, holding; /* modes: those found at the start, and those while keys wait */
    struct sigaction old[CAUGHT];   /* what was done on the signals of `caught` */
    bool catches;
    size_t limit_bytes;
    tool_paste paste;
    char keys[KEY_BYTES]; /* read, and not taken from keys_at on */
    size_t keys_at, keys_len;
    int entry;                          /* shown now, 1: the newest; 0: none */
    wchar_t *draft;                     /* what stood there before the history was called */
    volatile sig_atomic_t marks_pastes; /* the terminal was told to */
};

static volatile sig_atomic_t window_changed, wants_stop;
static tool_edit *volatile holder; /* the editor whose keys wait while an answer is shown */

static tool_edit *edit_of(EditLine *el)
{
    tool_edit *e = NULL;
    (void)el_wget(el, EL_CLIENTDATA, &e);
    return e;
}

/* ---- the terminal: this process's, a shell's while it is stopped; and signals that end it ---- */

/* Whether another group, such as a shell's, has the terminal: then its modes are left alone. */
static bool is_background(void)
{
    const pid_t group = tcgetpgrp(STDIN_FILENO);
    return group >= 0 && group != getpgrp();
}

/* These four are fit for a signal handler. */
static void set_modes(const struct termios *t) { (void)tcsetattr(STDIN_FILENO, TCSADRAIN, t); }

static void mark_pastes(tool_edit *e, bool wants)
{
    const char *text = wants ? PASTE_ON : PASTE_OFF;
    if (!e->marks_pastes != wants) return;
    (void)!write(STDERR_FILENO, text, strlen(text));
    e->marks_pastes = wants;
}

/* Keys typed during an answer are not echoed, and no line is cut: they wait. */
static void hold_keys(tool_edit *e)
{
    if (is_background()) return;
    set_modes(&e->holding);
    mark_pastes(e, true);
}

/* Ctrl-Z during an answer. With `bg` the answer goes on. */
static void stop_holding(tool_edit *e)
{
    const int error = errno;
    if (is_background()) {
        e->marks_pastes = false;
    } else {
        mark_pastes(e, false);
        set_modes(&e->before);
    }
    (void)raise(SIGSTOP);
    hold_keys(e);
    errno = error;
}

static void on_window(int sig) { (void)sig, window_changed = 1; }
static void on_end(int sig) { tool_stop = sig; }

static void on_suspend(int sig)
{
    (void)sig;
    if (holder) stop_holding(holder);
    else wants_stop = 1;
}

/* Signals caught as long as there is an editor, besides SIGINT and SIGTERM. SIGTTOU would stop the process
 * where it sets modes from the background, and no SIGTERM ends a stopped process. */
static const struct {
    int sig;
    void (*fn)(int);
} caught[CAUGHT] = {{SIGTSTP, on_suspend}, {SIGTTOU, SIG_IGN}, {SIGQUIT, on_end}, {SIGHUP, on_end}};

static void catch_signals(tool_edit *e)
{
    for (size_t i = 0; i < CAUGHT; i++) {
        const struct sigaction on = {.sa_handler = caught[i].fn,
                                     .sa_flags = caught[i].sig == SIGTSTP ? SA_RESTART : 0};
        sigaction(caught[i].sig, NULL, &e->old[i]);
        if (e->old[i].sa_handler != SIG_IGN)
            sigaction(caught[i].sig, &on, NULL); /* else: nohup and the like */
    }
    e->catches = true;
}

static const int ends[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP};

/* No signal arrives until the mask is set back. */
static void block_signals(sigset_t *ret_before)
{
    sigset_t all;
    sigemptyset(&all);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) sigaddset(&all, ends[i]);
    sigaddset(&all, SIGWINCH);
    sigaddset(&all, SIGTSTP);
    sigprocmask(SIG_BLOCK, &all, ret_before);
}

/* Whether a signal that ends the process waits. Signals are blocked. */
static bool is_ending(void)
{
    sigset_t pending;
    bool is = tool_stop != 0;
    sigemptyset(&pending);
    sigpending(&pending);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) is = is || sigismember(&pending, ends[i]) == 1;
    return is;
}

/* Gives the terminal back as it was found, or leaves it as its present owner has it, whatever libedit does to
 * it. */
static void leave_terminal(tool_edit *e, bool for_good)
{
    struct termios others;
    const bool is_others = is_background() && tcgetattr(STDIN_FILENO, &others) == 0;
    if (e->screen) fflush(e->screen);
    if (is_others) e->marks_pastes = false;
    mark_pastes(e, false);
    if (e->el && for_good) el_end(e->el);
    else if (e->el) (void)el_wset(e->el, EL_PREP_TERM, 0);
    set_modes(is_others ? &others : &e->before);
}

/* Waits until the terminal is this process's, or a signal ends the process. Signals are blocked. */
static void wait_for_terminal(void)
{
    const struct timespec a_moment = {.tv_nsec = 100000000}; /* a shell may continue the process first, then
                                                                end it */
    sigset_t none;
    sigemptyset(&none);
    while (is_background() && !is_ending())
        if (ppoll(NULL, 0, &a_moment, &none) == 0) (void)raise(SIGSTOP);
}

/* ---- keys ---- */

/* Ctrl-Z: gives the terminal to the shell, until the process is continued in the foreground. Signals are
 * blocked.
 */
static void suspend(tool_edit *e)
{
    leave_terminal(e, false);
    (void)raise(SIGSTOP);
    wait_for_terminal();
    if (is_ending()) return;
    mark_pastes(e, true);
    (void)el_wset(e->el, EL_PREP_TERM, 1);
    (void)el_wset(e->el, EL_REFRESH);
}

/* Waits for more keys. 1; 0 at the end of the input; -1 when tool_stop is set. Signals arrive only inside
 * ppoll, so that none falls between the look at its flag and the wait. */
static int wait_for_keys(tool_edit *e)
{
    sigset_t before;
    ssize_t n = -1;
    block_signals(&before);
    e->keys_len -= e->keys_at;
    memmove(e->keys, e->keys + e->keys_at, e->keys_len);
    e->keys_at = 0;
    while (!tool_stop && n < 0) {
        struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
        if (window_changed) {
            window_changed = 0;
            el_resize(e->el);
            fputs("\r\033[J", e->screen);
            (void)el_wset(e->el, EL_REFRESH);
        }
        if (wants_stop) {
            wants_stop = 0;
            suspend(e);
        }
        if (ppoll(&p, 1, NULL, &before) <= 0) continue;
        if (is_background()) { /* the keys are the shell's; a read would stop us, deaf to SIGTERM */
            wants_stop = 1;
            continue;
        }
        n = read(STDIN_FILENO, e->keys + e->keys_len, KEY_BYTES - e->keys_len);
        if (n < 0 && errno != EINTR && errno != EAGAIN) n = 0; /* the terminal has gone */
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (n > 0) e->keys_len += (size_t)n;
    return n > 0 ? 1 : n == 0 ? 0 : -1;
}

/* libedit's source of characters. */
static int next_char(EditLine *el, wchar_t *ret)
{
    tool_edit *e = edit_of(el);
    for (;;) {
        const size_t have = e->keys_len - e->keys_at;
        const size_t n = have ? tool_wide_take(ret, e->keys + e->keys_at, have) : 0;
        e->keys_at += n;
        if (n) return 1;
        const int rc = wait_for_keys(e);
        if (rc <= 0) return rc;
    }
}

/* ---- what keys do ---- */

static size_t line_chars(EditLine *el)
{
    const LineInfoW *l = el_wline(el);
    return (size_t)(l->lastchar - l->buffer);
}

static void to_end(EditLine *el)
{
    const LineInfoW *l = el_wline(el);
    (void)el_cursor(el, (int)(l->lastchar - l->cursor));
}

static unsigned char on_paste(EditLine *el, wint_t key)
{
    tool_edit *e = edit_of(el);
    wchar_t c;
    bool has_ended = false;
    (void)key;
    tool_paste_clear(&e->paste);
    while (!has_ended) {
        if (el_wgetc(el, &c) != 1) return CC_EOF;
        if (tool_paste_feed(&e->paste, c, &has_ended) < 0) e->paste.is_too_long = true;
    }
    const size_t line_bytes = tool_wide_bytes(el_wline(el)->buffer, line_chars(el));
    if (e->paste.is_too_long || line_bytes + e->paste.bytes > e->limit_bytes) {
        fprintf(e->screen, "\r\n(not pasted: a message has at most %zu bytes)\r\n", e->limit_bytes);
        (void)el_wset(el, EL_REFRESH);
        return CC_NORM;
    }
    if (e->paste.len > 0 && el_winsertstr(el, e->paste.text) < 0) return CC_ERROR;
    return CC_REFRESH;
}

static unsigned char on_newline(EditLine *el, wint_t key)
{
    (void)key;
    return el_winsertstr(el, L"\n") < 0 ? CC_ERROR : CC_REFRESH;
}

static bool begins_quoted(const LineInfoW *l)
{
    return l->lastchar - l->buffer >= 3 && wcsncmp(l->buffer, L"\"\"\"", 3) == 0;
}

bool tool_edit_is_open(const char *text, size_t len)
{
    return len >= 3 && memcmp(text, "\"\"\"", 3) == 0 &&
           (len < 6 || memcmp(text + len - 3, "\"\"\"", 3) != 0);
}

static unsigned char on_enter(EditLine *el, wint_t key)
{
    const LineInfoW *l = el_wline(el);
    if (begins_quoted(l)) {
        const bool is_open = l->lastchar - l->buffer < 6 || wcsncmp(l->lastchar - 3, L"\"\"\"", 3) != 0;
        to_end(el);
        if (is_open) return on_newline(el, key);
        el_wpush(el, KEY_TAKE);
        return CC_NORM;
    }
    const bool goes_on = l->lastchar > l->buffer && l->lastchar[-1] == L'\\';
    to_end(el);
    if (goes_on) {
        el_wdeletestr(el, 1);
        return on_newline(el, key);
    }
    el_wpush(el, KEY_TAKE);
    return CC_NORM;
}

static void replace_line(EditLine *el, const wchar_t *text)
{
    to_end(el);
    el_wdeletestr(el, (int)line_chars(el));
    (void)el_winsertstr(el, text); /* -1 for an empty one, which is there already */
}

/* Shows entry number n of the history, or for 0 what stood there before. */
static unsigned char show_entry(EditLine *el, int n)
{
    tool_edit *e = edit_of(el);
    HistEventW ev;
    if (n < 0) return CC_ERROR;
    if (n == 0) {
        replace_line(el, e->draft ? e->draft : L"");
    } else {
        int rc = history_w(e->history, &ev, H_FIRST);
        for (int i = 1; rc == 0 && i < n; i++) rc = history_w(e->history, &ev, H_NEXT);
        if (rc != 0) return CC_ERROR;
        if (e->entry == 0) {
            const LineInfoW *l = el_wline(el);
            const size_t chars = line_chars(el);
            free(e->draft);
            if (!(e->draft = malloc((chars + 1) * sizeof *e->draft))) return CC_ERROR;
            wmemcpy(e->draft, l->buffer, chars);
            e->draft[chars] = 0;
        }
        replace_line(el, ev.str);
    }
    e->entry = n;
    return CC_REFRESH;
}

static unsigned char on_up(EditLine *el, wint_t key)
{
    (void)key;
    return show_entry(el, edit_of(el)->entry + 1);
}

static unsigned char on_down(EditLine *el, wint_t key)
{
    (void)key;
    return show_entry(el, edit_of(el)->entry - 1);
}

static unsigned char on_search(EditLine *el, wint_t key)
{
    (void)key;
    if (line_chars(el) > SEARCH_MAX_CHARS) return CC_ERROR; /* libedit would cut it */
    el_wpush(el, KEY_SEARCH);
    return CC_NORM;
}

static const struct function {
    const wchar_t *name;
    unsigned char (*fn)(EditLine *, wint_t);
} functions[] = {
    {L"baton-paste", on_paste}, {L"baton-newline", on_newline}, {L"baton-enter", on_enter},
    {L"baton-up", on_up},       {L"baton-down", on_down},       {L"baton-search", on_search},
};

static const wchar_t *const bindings[][2] = {
    {TOOL_PASTE_BEGIN, L"baton-paste"},
    {L"\r", L"baton-enter"},
    {L"\n", L"baton-enter"},
    {L"\033\r", L"baton-newline"},
    {L"\033\n", L"baton-newline"},
    {L"\033[A", L"baton-up"},
    {L"\033OA", L"baton-up"},
    {L"\020", L"baton-up"}, /* Ctrl-P */
    {L"\033p", L"baton-up"},
    {L"\033[B", L"baton-down"},
    {L"\033OB", L"baton-down"},
    {L"\016", L"baton-down"}, /* Ctrl-N */
    {L"\033n", L"baton-down"},
    {L"\022", L"baton-search"}, /* Ctrl-R */
    {KEY_TAKE, L"ed-newline"},
    {KEY_SEARCH, L"em-inc-search-prev"},
    {L"\033[H", L"ed-move-to-beg"},
    {L"\033OH", L"ed-move-to-beg"},
    {L"\033[1~", L"ed-move-to-beg"},
    {L"\033[F", L"ed-move-to-end"},
    {L"\033OF", L"ed-move-to-end"},
    {L"\033[4~", L"ed-move-to-end"},
    {L"\033[3~", L"ed-delete-next-char"},
    {L"\033[1;5C", L"em-next-word"},
    {L"\033[1;5D", L"ed-prev-word"},
};

/* ---- opening ---- */

static wchar_t *prompt(EditLine *el)
{
    static wchar_t text[] = L"> ";
    (void)el;
    return text;
}

/* libedit draws by the locale; this editor's is UTF-8 whatever the user's is. */
static bool set_locale(void)
{
    (void)setlocale(LC_CTYPE, "");
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0 || setlocale(LC_CTYPE, "C.UTF-8");
}

static bool can_move_cursor(EditLine *el)
{
    char *up = NULL;
    return el_wget(el, EL_GETTC, "up", &up) == 0 && up && *up;
}

static bt_err set_up(tool_edit *e)
{
    HistEventW ev;
    int bad = el_wset(e->el, EL_CLIENTDATA, e) || el_wset(e->el, EL_EDITOR, L"emacs") ||
              el_wset(e->el, EL_GETCFN, next_char) || el_wset(e->el, EL_PROMPT, prompt) ||
              el_wset(e->el, EL_HIST, history_w, e->history) ||
              history_w(e->history, &ev, H_SETSIZE, HISTORY_ENTRIES) < 0 ||
              history_w(e->history, &ev, H_SETUNIQUE, 1) < 0;
    for (size_t i = 0; !bad && i < sizeof functions / sizeof *functions; i++)
        bad = el_wset(e->el, EL_ADDFN, functions[i].name, L"", functions[i].fn);
    for (size_t i = 0; !bad && i < sizeof bindings / sizeof *bindings; i++)
        bad = el_wset(e->el, EL_BIND, bindings[i][0], bindings[i][1], NULL);
    return bad ? BT_ENOMEM : BT_OK;
}

bt_err tool_edit_open(tool_edit **ret, size_t limit_bytes, bt_fault *fault)
{
    const char *term = getenv("TERM");
    struct termios before;
    if (!isatty(STDERR_FILENO) || tcgetattr(STDIN_FILENO, &before) < 0)
        return bt_fail(fault, BT_EVERSION, "no terminal");
    if (!term || !*term || strcmp(term, "dumb") == 0 || !set_locale())
        return bt_fail(fault, BT_EVERSION, "a terminal that cannot move its cursor");
    tool_edit *e = calloc(1, sizeof *e);
    if (!e) return bt_fail(fault, BT_ENOMEM, "out of memory for the editor of lines");
    e->before = e->holding = before;
    e->holding.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    e->holding.c_iflag &= ~(tcflag_t)(ICRNL | INLCR);
    e->holding.c_cc[VMIN] = 1;
    e->holding.c_cc[VTIME] = 0;
    e->limit_bytes = limit_bytes;
    tool_paste_init(&e->paste, limit_bytes);
    const int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    bt_err err = BT_OK;
    if (fd >= 0 && !(e->screen = fdopen(fd, "w"))) close(fd);
    e->mute = fopen("/dev/null", "we");
    e->history = history_winit();
    if (!e->screen || !e->mute || !e->history || !(e->el = el_init("baton", stdin, e->screen, e->mute)))
        err = bt_fail(fault, BT_ENOMEM, "out of memory for the editor of lines");
    else if (!can_move_cursor(e->el))
        err = bt_fail(fault, BT_EVERSION, "TERM is '%.40s', a terminal that cannot move its cursor", term);
    else if (set_up(e) < 0) err = bt_fail(fault, BT_ENOMEM, "out of memory for the editor of lines");
    if (err < 0) {
        tool_edit_close(e);
        return err;
    }
    catch_signals(e);
    mark_pastes(e, true); /* during answers too: a paste then waits as one */
    *ret = e;
    return BT_OK;
}

void tool_edit_close(tool_edit *e)
{
    if (!e) return;
    holder = NULL;
    leave_terminal(e, true);
    if (e->history) history_wend(e->history);
    if (e->screen) fclose(e->screen);
    if (e->mute) fclose(e->mute);
    for (size_t i = 0; e->catches && i < CAUGHT; i++) sigaction(caught[i].sig, &e->old[i], NULL);
    tool_paste_done(&e->paste);
    free(e->draft);
    free(e);
}

void tool_edit_remember(tool_edit *e, const char *text, size_t len)
{
    HistEventW ev;
    wchar_t *wide = tool_wide_dup(text, len);
    if (wide && *wide)
        (void)history_w(e->history, &ev, H_ENTER, wide); /* out of memory: it is not remembered */
    free(wide);
}

/* ---- reading ---- */

static bt_err take(tool_edit *e, bt_buf *ret, const wchar_t *text, size_t chars, bt_fault *fault)
{
    if (chars > 0 && text[chars - 1] == L'\n') chars--;
    const bt_err err = tool_wide_put_all(ret, text, chars);
    if (err == BT_EFORMAT) return bt_fail(fault, err, "not sent: that is not valid UTF-8");
    if (err == BT_ELIMIT)
        return bt_fail(fault, err, "not sent: a message has at most %zu bytes", e->limit_bytes);
    return err < 0 ? bt_fail(fault, err, "the line cannot be kept: %s", bt_err_name(err)) : BT_OK;
}

bt_err tool_edit_read(tool_edit *e, bt_buf *ret, bool *ret_ended, bt_fault *fault)
{
    const struct sigaction window = {.sa_handler = on_window};
    struct sigaction old_window;
    sigset_t before;
    int chars = 0;
    holder = NULL;
    block_signals(&before);
    wait_for_terminal(); /* after `bg` */
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (tool_stop) return bt_fail(fault, BT_ECANCEL, "interrupted");
    mark_pastes(e, true);
    sigaction(SIGWINCH, &window, &old_window);
    e->entry = 0;
    const wchar_t *text = el_wgets(e->el, &chars);
    holder = e;
    hold_keys(e);
    fflush(e->screen);
    sigaction(SIGWINCH, &old_window, NULL);
    if (tool_stop) {
        if (line_chars(e->el) > 0) (void)bt_buf_byte(ret, '?'); /* it only says that there was something */
        return bt_fail(fault, BT_ECANCEL, "interrupted");
    }
    if (wants_stop) { /* Ctrl-Z after the last look */
        wants_stop = 0;
        stop_holding(e);
    }
    *ret_ended = !text || chars <= 0;
    return *ret_ended ? BT_OK : take(e, ret, text, (size_t)chars, fault);
}
