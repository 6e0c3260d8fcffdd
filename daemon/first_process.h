/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * elasticd as process 1 of a container. The kernel gives process 1 all orphans to reap, and ends
 * all others with it. elasticd waits for processes that it knows alone, so it runs as a child of
 * process 1. Called by main() before anything else is set up; knows no job.
 */

#include <stdbool.h>

/* In process 1 forks and returns true in the child; process 1 reaps, hands signals on to the child,
 * and exits as the child does, with 128 and the number of a signal that killed it. In any other
 * process returns false. Exits with 1 where it cannot fork. */
bool first_process_fork(void);
