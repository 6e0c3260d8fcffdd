/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One log as one viewer wants to see it: from the right place on, only the lines that were asked
 * for, step by step. Knows no loop, and no other logs.
 */

#include "agent/lines.h"
#include "agent/log_input.h"
#include "agent/log_line.h"
#include "agent/log_match.h"
#include "agent/log_watch.h"
#include "common/cleanup.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	LOG_VIEW_PIECE = 16 * 1024, /* longer lines come in parts */
	LOG_VIEW_QUIET_MS = 200,
	LOG_VIEW_UPDATE_MS = 1000,
};

struct log_view_rules {
	int64_t since_us, until_us; /* -1: not given */
	int64_t lines;	      /* only the last so many of what is there at the start; -1: all */
	const char *contains; /* NULL: all lines */
};

struct log_view;

typedef void (*log_view_fn)(void *arg, const struct log_view *v, const struct log_line *line);

enum log_view_state {
	LOG_VIEW_FIND,	/* looks for where the last lines begin, backwards */
	LOG_VIEW_COUNT, /* counts the lines that will be handed out */
	LOG_VIEW_READ,
	LOG_VIEW_END,	 /* all that there is was read */
	LOG_VIEW_BROKEN, /* it cannot be read, or not any more */
};

struct log_view {
	struct log_view *next; /* the reader's */
	struct log_task_info who;
	int std;
	struct log_input input;
	struct log_watch *watch; /* the reader's */

	const struct log_view_rules *rules;
	log_view_fn fn;
	void *arg;
	enum log_view_state state;
	struct lines_config config;
	struct lines lines;
	struct log_finder finder;
	struct log_match match;
	int64_t skip_lines;   /* lines still to be passed over, whatever they are */
	int64_t skip_matches; /* ... of those that would be handed out */
	int64_t matches;
	bool skipping;		    /* the line that goes on is passed over */
	bool chosen;		    /* ... or is among those that match */
	bool live;		    /* its end was reached once: what comes is new */
	int64_t time_us, range_us;  /* when the line that goes on was written */
	size_t worked;		    /* bytes that the last step looked at */
	int64_t quiet_us, woken_us; /* live: its end was seen last; the write after that was told */
	int64_t skip_to;	    /* offset in the live file; -1: nothing is left out */
	int64_t missed;		    /* lines left out since this was last set to 0 */
};

/* path of the live file; rules are borrowed. history: rules->lines applies. Returns owned in ret.
 */
_must_check_ int log_view_new(const char *path, const struct log_task_info *who, int std,
	bool history, const struct log_view_rules *rules, log_view_fn fn, void *arg,
	struct log_view **ret);
struct log_view *log_view_free(struct log_view *v);

/* Does a bounded piece of work: at most one line. Returns false at the end of what there is; then
 * log_view_more() says that it may have grown. */
bool log_view_step(struct log_view *v, uint64_t now_ms);
bool log_view_at_end(const struct log_view *v);
void log_view_more(struct log_view *v);
/* The same at the moment of a write. */
void log_view_written(struct log_view *v);

/* Whether the next step hands out what was written at log_view_time(): before that it has to be
 * looked for, by steps that hand out nothing. */
bool log_view_ready(const struct log_view *v);
/* When the next line was written, as far as that is known, and never before the one in front of it;
 * -1: not known. */
int64_t log_view_time(const struct log_view *v);

/* Partial lines and progress bars, as in lines.h. */
uint64_t log_view_deadline(const struct log_view *v);
void log_view_tick(struct log_view *v, uint64_t now_ms);
/* Nothing will be added; without over, the last line may still go on. */
void log_view_finish(struct log_view *v, bool over);

/* When more than max bytes of what is new wait to be read, all but the last keep are left out. */
void log_view_skip(struct log_view *v, int64_t max, int64_t keep);
