/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by watchdog.c (checks) and on_hang.c (dumps, and the end of failed workers). */

#include "agent/watchdog/heartbeat.h"
#include "agent/watchdog/progress.h"
#include "agent/watchdog/watchdog.h"

enum { WATCHDOG_DUMP_WORKERS = 64 }; /* dumped at once */

/* The checks of the process in one slot. */
struct worker_watch {
	uint64_t token; /* of this process */
	bool on;
	bool failing;	/* it has failed; it ends once it is dumped */
	uint64_t found; /* position among the failures, in the order in which they were found */
	char why[sizeof(((struct worker *)0)->blame)];
	struct spec_heartbeat spec; /* the checks that this worker can show */
	struct heartbeat heartbeat;
	struct progress progress;
};

struct watchdog {
	struct supervisor *sv;
	struct loop_timer *timer;
	struct dumps *dumps;
	regex_t pattern;
	bool has_pattern;
	struct worker_watch **watches; /* by slot; NULL: never watched. Entries never move */
	size_t n;
	uint64_t found;		     /* number of failures so far */
	int pauses;		     /* dumps that run: nothing is checked meanwhile */
	bool dumping, hosts_dumping; /* failed workers wait for that: on this host; on others */
};

/* The checks of the process in w's slot, or NULL. */
struct worker_watch *watchdog_find(const struct watchdog *wd, const struct worker *w);
/* Surround a dump: the agent's debuggers stop workers, and other workers wait for these. */
void watchdog_pause(struct watchdog *wd);
void watchdog_resume(struct watchdog *wd);
/* Saves the failed workers, and then ends them, or, where failures are only reported, leaves them.
 */
void watchdog_dump_group(struct watchdog *wd);
/* Hooks of a group of several hosts. */
void watchdog_hosts_dumped(struct supervisor *sv);
void watchdog_hosts_dump(struct supervisor *sv, int64_t number, const char *why);
