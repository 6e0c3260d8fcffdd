/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One log as one viewer wants to see it: from the right place on, only the wanted lines, step by
 * step. Arms no timer, and knows no other logs.
 */

#include "agent/files/inotify.h"
#include "agent/logs/input.h"
#include "agent/logs/line_json.h"
#include "agent/logs/line_splitter.h"
#include "agent/logs/match.h"
#include "common/base/cleanup.h"

#include <stdbool.h>
#include <stdint.h>

struct log_view_rules {
	int64_t since_us, until_us; /* -1: not given */
	int64_t lines;		    /* only the last so many lines of history; -1: all */
	const char *contains;	    /* NULL: all lines */
};

struct log_view;

typedef void (*log_view_fn)(void *arg, const struct log_view *v, const struct log_line *line);

enum log_view_state {
	LOG_VIEW_FIND,	/* searches backwards for the start of the last lines */
	LOG_VIEW_COUNT, /* counts the lines that will be handed out */
	LOG_VIEW_READ,
	LOG_VIEW_END,	 /* all present bytes were read */
	LOG_VIEW_BROKEN, /* it cannot be read, or no longer */
};

struct log_view {
	struct log_view *next; /* in the reader's list */
	struct log_worker_info worker;
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
	int64_t skip_lines;   /* lines to skip, whatever they contain */
	int64_t skip_matches; /* ... lines to skip among those that match */
	int64_t matches;
	bool skipping;		    /* the present line is skipped */
	bool chosen;		    /* ... or matches */
	bool live;		    /* history is over: the end was reached once */
	int64_t time_us, range_us;  /* when the present line was written */
	size_t worked;		    /* bytes read by the last step */
	int64_t quiet_us, woken_us; /* live: when the end was reached; the write after it */
	int64_t skip_to;	    /* skip up to this offset in the live file; -1: do not */
	int64_t missed;		    /* lines skipped since the reader last set this to 0 */
};

/* path is that of the live file; rules are borrowed. history: apply rules->lines. Returns owned in
 * ret. */
_must_check_ int log_view_new(const char *path, const struct log_worker_info *worker, int std,
	bool history, const struct log_view_rules *rules, log_view_fn fn, void *arg,
	struct log_view **ret);
struct log_view *log_view_free(struct log_view *v);

/* Does a bounded piece of work: at most one line. Returns false at the present end. The reader
 * calls log_view_check_again() when the log may have grown. */
bool log_view_step(struct log_view *v, uint64_t now_ms);
bool log_view_at_end(const struct log_view *v);
void log_view_check_again(struct log_view *v);
/* As log_view_check_again(), called at the moment of a write, whose time it notes. */
void log_view_written(struct log_view *v);

/* True when the next step hands out a line, written at input.next_us. False: steps that search and
 * hand out nothing come first. */
bool log_view_ready(const struct log_view *v);

/* Partial lines and progress bars, as in line_splitter.h. */
uint64_t log_view_deadline(const struct log_view *v);
void log_view_tick(struct log_view *v, uint64_t now_ms);
/* Nothing more will be added. over false: the last line stays a partial one. */
void log_view_finish(struct log_view *v, bool over);

/* When more than max new bytes are unread, skips all but the last keep bytes. */
void log_view_skip(struct log_view *v, int64_t max, int64_t keep);
