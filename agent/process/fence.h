/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A page that an agent and its guard share, in a group of several hosts: the time until which
 * workers may live here, and the agent's last word to the group's head. Where the agent is stopped,
 * hangs or has died, the guard does both in its place.
 *
 * The agent calls fence_set() and fence_last_word(); the guard the rest. Before fence_make(), and
 * in a process without a guard, the agent's two do nothing.
 */

#include "common/base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

enum { FENCE_TEXT_MAX = 512 };

/* Before the fork of the guard. Returns 0 or a negative errno. */
_must_check_ int fence_make(void);

/* The agent: its workers may live until then (milliseconds of CLOCK_BOOTTIME); 0: as long as they
 * like. Returns true where the guard must be woken, because it waits without a limit. */
bool fence_set(uint64_t deadline_ms);
/* The agent: what the guard sends to that address when the agent has died, and all its workers are
 * dead; len 0: nothing. */
void fence_last_word(const struct sockaddr *to, socklen_t to_len, const void *text, size_t len);

/* The guard: how many milliseconds the workers have left; -1: no limit, 0: none. */
int64_t fence_left_ms(void);
/* The guard: kills all descendants of agent, but not agent itself; for at most some seconds. If the
 * agent goes on meanwhile, spares those that have started since the deadline. */
void fence_kill(pid_t agent);
/* The guard: sends the last word, for at most a second. */
void fence_say_last_word(void);
