/* Timers, descriptors, sockets and signals in one round; changes made by handlers. */
#include "rt/loop.h"
#include "base/clock.h"
#include "rt/sock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static bt_loop *loop;
static char order[64];
static char letters[] = "abcdefghijklmnopqrstuvwxyz";
#define LETTER(c) (&letters[(c) - 'a'])

static int new_loop(void **s)
{
    (void)s;
    memset(order, 0, sizeof order);
    return bt_loop_new(&loop, NULL);
}

static int free_loop(void **s)
{
    (void)s;
    bt_loop_free(loop);
    return 0;
}

static void note(void *ud, unsigned events)
{
    (void)events;
    order[strlen(order)] = *(const char *)ud;
}

static void note_and_stop(void *ud, unsigned events)
{
    note(ud, events);
    bt_loop_stop(loop);
}

static void timers_run_in_the_order_of_their_due_times(void **s)
{
    (void)s;
    uint64_t id;
    const int64_t begin_ms = bt_clock_ms();
    assert_int_equal(bt_loop_add_timer(&id, loop, 12, 0, note_and_stop, LETTER('d')), BT_OK);
    assert_int_equal(bt_loop_add_timer(&id, loop, 6, 0, note, LETTER('b')), BT_OK);
    assert_int_equal(bt_loop_add_timer(&id, loop, 6, 0, note, LETTER('c')), BT_OK);
    assert_int_equal(bt_loop_add_timer(&id, loop, 0, 0, note, LETTER('a')), BT_OK);
    assert_int_equal(bt_loop_run(loop, NULL), BT_OK);
    assert_string_equal(order, "abcd");
    assert_true(bt_clock_ms() - begin_ms >= 11);
}

static void a_cancelled_timer_does_not_run(void **s)
{
    (void)s;
    uint64_t a, b;
    assert_int_equal(bt_loop_add_timer(&a, loop, 0, 0, note, LETTER('a')), BT_OK);
    assert_int_equal(bt_loop_add_timer(&b, loop, 1, 0, note_and_stop, LETTER('b')), BT_OK);
    bt_loop_remove(loop, a);
    bt_loop_remove(loop, a);
    bt_loop_remove(loop, 99);
    bt_loop_remove(loop, 0);
    assert_int_equal(bt_loop_run(loop, NULL), BT_OK);
    assert_string_equal(order, "b");
}

static uint64_t periodic;
static void three_times(void *ud, unsigned events)
{
    note(ud, events);
    if (strlen(order) < 3) return;
    bt_loop_remove(loop, periodic);
    bt_loop_stop(loop);
}

static void a_periodic_timer_runs_until_it_is_removed(void **s)
{
    (void)s;
    assert_int_equal(bt_loop_add_timer(&periodic, loop, 0, 1, three_times, LETTER('p')), BT_OK);
    assert_int_equal(bt_loop_run(loop, NULL), BT_OK);
    assert_int_equal(bt_loop_step(loop, 3, NULL), BT_OK);
    assert_string_equal(order, "ppp");
}

static void add_another(void *ud, unsigned events)
{
    uint64_t id;
    note(ud, events);
    if (strlen(order) < 5) (void)bt_loop_add_timer(&id, loop, 0, 0, add_another, ud);
}

static void a_timer_made_by_a_timer_waits_for_the_next_round(void **s)
{
    (void)s;
    uint64_t id;
    assert_int_equal(bt_loop_add_timer(&id, loop, 0, 0, add_another, LETTER('x')), BT_OK);
    for (size_t round = 1; round <= 5; round++) {
        assert_int_equal(bt_loop_step(loop, 0, NULL), BT_OK);
        assert_int_equal(strlen(order), round);
    }
}

static void a_timer_can_be_put_off_and_brought_forward(void **s)
{
    (void)s;
    uint64_t id;
    assert_int_equal(bt_loop_add_timer(&id, loop, 0, 0, note, LETTER('t')), BT_OK);
    bt_loop_set_timer(loop, id, 1000000);
    assert_int_equal(bt_loop_step(loop, 0, NULL), BT_OK);
    assert_string_equal(order, "");
    bt_loop_set_timer(loop, id, 0);
    assert_int_equal(bt_loop_step(loop, -1, NULL), BT_OK);
    assert_string_equal(order, "t");
}

static int pipes[2][2];
static uint64_t watch_ids[2];
static void drop_the_other(void *ud, unsigned events)
{
    note(ud, events);
    bt_loop_remove(loop, watch_ids[0]);
    bt_loop_remove(loop, watch_ids[1]);
}

static void a_watch_removed_by_a_handler_is_not_called_though_ready(void **s)
{
    (void)s;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pipe(pipes[i]), 0);
        assert_int_equal(write(pipes[i][1], "x", 1), 1);
        assert_int_equal(
            bt_loop_add_fd(&watch_ids[i], loop, pipes[i][0], BT_LOOP_IN, drop_the_other, LETTER('r')), BT_OK);
    }
    for (int i = 0; i < 3; i++) assert_int_equal(bt_loop_step(loop, 0, NULL), BT_OK);
    assert_string_equal(order, "r");
    for (int i = 0; i < 4; i++) close(pipes[i / 2][i % 2]);
}

static unsigned seen;
static void keep_events(void *ud, unsigned events)
{
    (void)ud;
    seen |= events;
}

static void wishes_of_a_descriptor_can_change(void **s)
{
    (void)s;
    uint64_t id;
    assert_int_equal(pipe(pipes[0]), 0);
    assert_int_equal(bt_loop_add_fd(&id, loop, pipes[0][1], 0, keep_events, NULL), BT_OK);
    seen = 0;
    assert_int_equal(bt_loop_step(loop, 0, NULL), BT_OK);
    assert_int_equal(seen, 0);
    bt_loop_set_events(loop, id, BT_LOOP_OUT);
    assert_int_equal(bt_loop_step(loop, 0, NULL), BT_OK);
    assert_int_equal(seen, BT_LOOP_OUT);
    close(pipes[0][0]);
    assert_int_equal(bt_loop_step(loop, 0, NULL), BT_OK);
    assert_true(seen & BT_LOOP_ERR);
    close(pipes[0][1]);
}

static void many_watches_added_by_a_handler(void *ud, unsigned events)
{
    note(ud, events);
    for (int i = 0; i < 100; i++) {
        uint64_t id;
        (void)bt_loop_add_fd(&id, loop, pipes[0][0], BT_LOOP_IN, keep_events, NULL);
    }
    bt_loop_remove(loop, watch_ids[0]);
}

static void handlers_may_add_while_the_loop_walks(void **s)
{
    (void)s;
    assert_int_equal(pipe(pipes[0]), 0);
    assert_int_equal(write(pipes[0][1], "x", 1), 1);
    assert_int_equal(bt_loop_add_fd(&watch_ids[0], loop, pipes[0][0], BT_LOOP_IN,
                                    many_watches_added_by_a_handler, LETTER('m')),
                     BT_OK);
    assert_int_equal(bt_loop_add_fd(&watch_ids[1], loop, pipes[0][0], BT_LOOP_IN, note, LETTER('n')), BT_OK);
    assert_int_equal(bt_loop_step(loop, 0, NULL), BT_OK);
    assert_string_equal(order, "mn");
    close(pipes[0][0]);
    close(pipes[0][1]);
}

static void the_number_of_watches_has_a_limit(void **s)
{
    (void)s;
    uint64_t id;
    for (int i = 0; i < 4096; i++) assert_int_equal(bt_loop_add_fd(&id, loop, 0, 0, note, NULL), BT_OK);
    assert_int_equal(bt_loop_add_fd(&id, loop, 0, 0, note, NULL), BT_ELIMIT);
}

static int signals[4];
static void on_signal(void *ud, int signo)
{
    (void)ud;
    signals[0]++;
    signals[1] = signo;
    bt_loop_stop(loop);
}

static void signals_come_as_calls(void **s)
{
    (void)s;
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(bt_loop_on_signals(loop, on_signal, NULL, NULL), BT_OK);
    kill(getpid(), SIGTERM);
    assert_int_equal(bt_loop_run(loop, NULL), BT_OK);
    assert_int_equal(signals[0], 1);
    assert_int_equal(signals[1], SIGTERM);
    assert_int_equal(bt_loop_on_signals(loop, on_signal, NULL, NULL), BT_EARG);
    bt_loop_free(loop);
    loop = NULL;
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_int_equal(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
}

static void a_signal_between_two_loops_waits_for_the_second(void **s)
{
    sigset_t before;
    (void)s;
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &before), 0);
    memset(signals, 0, sizeof signals);
    bt_loop_hold_signals();
    assert_int_equal(bt_loop_on_signals(loop, on_signal, NULL, NULL), BT_OK);
    assert_false(bt_loop_held_end());
    kill(getpid(), SIGTERM); /* after the first loop has looked for the last time */
    bt_loop_free(loop);
    assert_true(bt_loop_held_end());
    assert_int_equal(bt_loop_new(&loop, NULL), BT_OK);
    assert_int_equal(bt_loop_on_signals(loop, on_signal, NULL, NULL), BT_OK);
    assert_int_equal(bt_loop_step(loop, 0, NULL), BT_OK);
    assert_int_equal(signals[0], 1);
    assert_int_equal(signals[1], SIGTERM);
    assert_false(bt_loop_held_end());
    bt_loop_free(loop);
    loop = NULL;
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
}

static void *server;
static void take(void *ud, unsigned events)
{
    bt_sock_frame f[4];
    size_t n;
    (void)events;
    while (bt_sock_recv_frames(server, f, 4, &n) == BT_OK) {
        ++*(int *)ud;
        bt_sock_frames_done(f, n);
    }
    if (*(int *)ud == 100) bt_loop_stop(loop);
}

static void sockets_are_read_until_they_are_empty(void **s)
{
    (void)s;
    bt_sock_ctx *ctx;
    void *client;
    char at[BT_SOCK_ENDPOINT_BYTES];
    uint64_t id;
    int got = 0;
    assert_int_equal(bt_sock_ctx_new(&ctx, NULL, NULL, NULL), BT_OK);
    assert_int_equal(bt_sock_open(&server, ctx, BT_SOCK_CONTROL_ROUTER, NULL), BT_OK);
    assert_int_equal(bt_sock_open(&client, ctx, BT_SOCK_CONTROL_DEALER, NULL), BT_OK);
    assert_int_equal(bt_sock_bind(at, server, ctx, "inproc://loop", NULL), BT_OK);
    assert_int_equal(bt_sock_connect(client, ctx, at, NULL, NULL), BT_OK);
    for (int i = 0; i < 100; i++) {
        bt_sock_frame f;
        assert_int_equal(bt_sock_frame_copy(&f, "hi", 2), BT_OK);
        assert_int_equal(bt_sock_send_frames(client, &f, 1), BT_OK);
    }
    assert_int_equal(bt_loop_add_socket(&id, loop, server, BT_LOOP_IN, take, &got), BT_OK);
    assert_int_equal(bt_loop_run(loop, NULL), BT_OK);
    assert_int_equal(got, 100);
    bt_loop_remove(loop, id);
    bt_sock_close(client);
    bt_sock_close(server);
    bt_sock_ctx_free(ctx);
}

static void note_turn(void *ud, bool is_over)
{
    assert_string_equal(ud, "turns");
    order[strlen(order)] = is_over ? ')' : '(';
}

static void each_round_says_when_its_wait_ends_and_when_it_is_over(void **s)
{
    (void)s;
    uint64_t id;
    char name[] = "turns";
    bt_loop_on_turns(loop, note_turn, name);
    assert_int_equal(bt_loop_add_timer(&id, loop, 5, 0, note_and_stop, LETTER('b')), BT_OK);
    assert_int_equal(bt_loop_add_timer(&id, loop, 0, 0, note, LETTER('a')), BT_OK);
    assert_int_equal(bt_loop_run(loop, NULL), BT_OK);
    assert_memory_equal(order, "(a)", 3); /* a round that finds nothing due is one too */
    assert_memory_equal(order + strlen(order) - 3, "(b)", 3);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, new_loop, free_loop)
    const struct CMUnitTest tests[] = {
        T(timers_run_in_the_order_of_their_due_times),
        T(a_cancelled_timer_does_not_run),
        T(a_periodic_timer_runs_until_it_is_removed),
        T(a_timer_made_by_a_timer_waits_for_the_next_round),
        T(a_timer_can_be_put_off_and_brought_forward),
        T(a_watch_removed_by_a_handler_is_not_called_though_ready),
        T(wishes_of_a_descriptor_can_change),
        T(handlers_may_add_while_the_loop_walks),
        T(the_number_of_watches_has_a_limit),
        T(signals_come_as_calls),
        T(a_signal_between_two_loops_waits_for_the_second),
        T(sockets_are_read_until_they_are_empty),
        T(each_round_says_when_its_wait_ends_and_when_it_is_over),
    };
    return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
