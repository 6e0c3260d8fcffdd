/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The event loop: only this and the varlink connections know libevent. Every callback runs on the
 * loop's thread, never inside the call that registered it, and may free its own handle. Handles
 * belong to their creator and must be freed before the loop. An idle loop makes no system call.
 */

#include "common/base/cleanup.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct loop_timer;
struct loop_fd;
struct loop_signal;
struct loop_again;

/* LOOP_EDGE with the others: report a descriptor once when it becomes ready, not in each turn while
 * it is. A connection whose peer is gone is ready for everything. */
enum { LOOP_READ = 1, LOOP_WRITE = 2, LOOP_EDGE = 4 };

typedef void (*loop_fn)(void *arg);
typedef void (*loop_fd_fn)(int fd, int events, void *arg);
typedef void (*loop_signal_fn)(int signo, void *arg);

/* Returns 0 and an owned loop, or -ENOMEM. */
_must_check_ int loop_new(struct loop **ret);
struct loop *loop_free(struct loop *l);
DEFINE_CLEANUP(struct loop *, loop_free)

/* Runs until loop_quit(); returns the code given there, or a negative errno. */
_must_check_ int loop_run(struct loop *l);
void loop_quit(struct loop *l, int code);

/* For tests: runs events that are ready; with wait, waits for the first. */
void loop_run_once(struct loop *l, bool wait);

/* CLOCK_MONOTONIC in milliseconds, less what loop_stood_still() got, read at each call;
 * CLOCK_REALTIME in microseconds. */
uint64_t loop_now_ms(void);
uint64_t loop_real_us(void);

/* For tests: from now on time passes by loop_pass() alone, in all loops of the process. Descriptors
 * are waited for as before. */
void loop_freeze(void);

/* For tests: lets ms pass at once; timers that are due by then fire in the next turn. */
void loop_pass(struct loop *l, uint64_t ms);

/* The process, and all that it waits for, stood still for ms until now: this time does not count
 * for timers and deadlines. */
void loop_stood_still(uint64_t ms);

/* A timer that fires once each time it is armed, never before delay_ms have passed; with 0 on the
 * next turn. */
_must_check_ int loop_timer_new(struct loop *l, loop_fn fn, void *arg, struct loop_timer **ret);
void loop_timer_arm(struct loop_timer *t, uint64_t delay_ms);
void loop_timer_disarm(struct loop_timer *t);
bool loop_timer_armed(const struct loop_timer *t);
struct loop_timer *loop_timer_free(struct loop_timer *t);

/* Watches a descriptor, which stays the caller's and must stay open until the handle is freed.
 * events may be 0 (paused). */
_must_check_ int loop_fd_new(
	struct loop *l, int fd, int events, loop_fd_fn fn, void *arg, struct loop_fd **ret);
_must_check_ int loop_fd_set(struct loop_fd *f, int events);
struct loop_fd *loop_fd_free(struct loop_fd *f);

/* Calls fn once per turn in which signo arrived, however many times. */
_must_check_ int loop_signal_new(
	struct loop *l, int signo, loop_signal_fn fn, void *arg, struct loop_signal **ret);
struct loop_signal *loop_signal_free(struct loop_signal *s);

/*
 * Runs fn(arg) once, after the current callback and before the loop waits again. Posting the same
 * pair again before it ran does nothing. loop_cancel() takes a posted pair back.
 */
_must_check_ int loop_defer(struct loop *l, loop_fn fn, void *arg);
void loop_cancel(struct loop *l, loop_fn fn, void *arg);

/* For work that no descriptor announces: each time it is armed, fn runs once in the next turn,
 * after that turn's events; that turn does not wait. They run in the order in which they were
 * armed. */
_must_check_ int loop_again_new(struct loop *l, loop_fn fn, void *arg, struct loop_again **ret);
void loop_again_arm(struct loop_again *a);
struct loop_again *loop_again_free(struct loop_again *a);

/* The number of this turn, for work that is shared out by turns. A turn begins with the work that
 * waited for it (loop_again), then come descriptors and timers. */
uint64_t loop_turn(const struct loop *l);
