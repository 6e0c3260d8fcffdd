/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by speed.c (figures), speed_watch.c (looks by a timer) and speed_hosts.c (a group of
 * several hosts). A look is one reading of how far all workers are, at one moment. */

#include "agent/speed/batch.h"
#include "agent/speed/goodput.h"
#include "agent/speed/pace.h"
#include "agent/speed/speed.h"
#include "agent/speed/speed_group.h"
#include "agent/watchdog/progress.h"

/* How far a process is. */
struct speed_steps {
	uint64_t count;	     /* steps that it has begun; 0: none is known */
	int64_t last, first; /* their numbers; -1: not known */
	int64_t first_us;    /* when the first began; 0: not known */
};

/* The present process in one slot, or the last one. */
struct speed_worker {
	uint64_t token;
	bool ended;
	struct progress *progress; /* of its logs; NULL: they are not followed */
	struct speed_steps logged; /* as found there */
	struct speed_steps at_end;
	struct pace pace;
	char slow_text[128]; /* how it is slow, where the head compares it; "": it is not */
};

struct speed {
	struct supervisor *sv;
	struct goodput *goodput;
	struct speed_worker **workers; /* by slot; NULL: never looked at. Entries never move */
	size_t n;
	struct loop_timer *timer;
	regex_t pattern;
	bool has_pattern;
	uint64_t moment;    /* number of the look for which the timer is armed */
	bool moment_common; /* by the head's clock */
	int *apart; /* by role: the last attempt in which its workers were seen to be further from
		       each other than one step; -1: none */
	struct batch batch;	   /* for the head */
	struct speed_group *group; /* this host is the head; else NULL */
	struct commons *commons;   /* the group's */
	json_t *slow;		   /* of a group of several hosts: texts by names of workers */
	int slow_attempt;	   /* in that attempt */
};

struct speed *speed_of(const struct supervisor *sv);
/* The entry for w's present process, made where there is none. NULL without memory or slot. */
struct speed_worker *speed_entry(struct speed *sp, const struct worker *w);
/* How far w is. Returns whether any step is known. */
bool speed_read(struct speed *sp, const struct worker *w, struct speed_steps *ret);
uint64_t speed_window_ms(const struct speed *sp);

/* Whether the specification asks for looks by a timer. */
bool speed_watches(const struct supervisor *sv);
_must_check_ int speed_watch_new(struct speed *sp, struct error *err);
void speed_watch_free(struct speed *sp);
void speed_watch_started(struct speed *sp, struct worker *w);
/* Its process has ended: reads what it wrote last. */
void speed_watch_ended(struct speed *sp, const struct worker *w, struct speed_worker *s);

/* Whether the workers are compared with those of other hosts, and the head's clock is known: ret is
 * what to add to a time of this host; else 0. */
bool speed_hosts_offset_us(const struct speed *sp, int64_t *ret);
/* In a group of several hosts: looks at the workers, and sends the head what batch.h says. Returns
 * false in others. */
bool speed_hosts_send_looks(struct speed *sp, uint64_t moment);
void speed_hosts_ended(struct speed *sp, const struct worker *w);
void speed_hosts_free(struct speed *sp);
void speed_hosts_describe(const struct speed *sp, json_t *job);
/* The hooks of those names. */
void speed_hosts_lead(struct supervisor *sv, const struct hosts_lead *lead);
void speed_hosts_begin(struct supervisor *sv);
void speed_hosts_stopping(struct supervisor *sv);
void speed_hosts_worker_started(struct supervisor *sv, struct worker *w);
void speed_hosts_worker_exited(struct supervisor *sv, struct worker *w, const json_t *report);
int speed_hosts_stepped(
	struct supervisor *sv, int first_rank, int n, const json_t *steps, struct error *err);
void speed_hosts_straggler(struct supervisor *sv, const json_t *p);
