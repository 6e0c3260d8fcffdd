/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The state of `elasticctl top`, and how keys change it. Pure: the caller brings answers, keys and
 * the time, does what top_key() returns, and paints the frame of top_view().
 */

#include "client/top/list.h"

enum top_screen { TOP_JOBS, TOP_WORKERS, TOP_LOGS, TOP_HELP };
enum top_prompt { TOP_NO_PROMPT, TOP_FILTER, TOP_SIGNAL, TOP_CONFIRM };

/* Keys that are no characters. */
enum top_key {
	TOP_KEY_ENTER = -20,
	TOP_KEY_ESCAPE,
	TOP_KEY_BACKSPACE,
	TOP_KEY_UP,
	TOP_KEY_DOWN,
	TOP_KEY_LEFT,
	TOP_KEY_RIGHT,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_HELP,
	TOP_KEY_SORT,
	TOP_KEY_REDRAW,
};

/* For the caller to do after a key. */
enum top_do {
	TOP_DO_NOTHING,
	TOP_DO_QUIT,
	TOP_DO_OPEN,   /* ask for the job open_run */
	TOP_DO_LOGS,   /* follow the lines of target */
	TOP_DO_UNLOGS, /* no longer */
	TOP_DO_KILL,   /* send signal to target */
	TOP_DO_REDRAW, /* paint all of the terminal */
};

/* A worker, or all of a job. */
struct top_target {
	char *run, *name; /* name is for people: "job" or "job/role:index" */
	int rank;	  /* -1: all */
	int pid;	  /* of a worker that runs, else 0 */
};

enum { TOP_LINES_MAX = 5000 };

struct top_lines {
	char **lines;
	size_t n;
	size_t back; /* lines below the lower edge; 0: follows */
};

struct top {
	struct top_list jobs, workers;
	enum top_screen screen, below; /* below: behind logs and help */
	enum top_prompt prompt;
	char input[TOP_TEXT_MAX];
	char *open_run;	  /* the job whose workers are listed, by run or name */
	json_t *open_job; /* its last answer; NULL before the first */
	json_t *gpus;	  /* the last answer about GPUs; NULL: none */
	bool open_alone;  /* it was named by the user: Escape does not leave it */
	struct top_target target;
	const char *signal; /* the name of the one that TOP_DO_KILL sends */
	struct top_lines log;
	char daemon[64]; /* "0.1.0, up 2h 13m" */
	char notice[256];
	bool notice_bad;
	int64_t notice_until_ms;
	char lost[256]; /* why there is no connection; "": there is one */
	int64_t now_ms, now_us;
	int rows, columns; /* of the terminal */
	int help_first;	   /* line of the help at the upper edge */
	bool help_cut;	   /* not all of it fits */
	bool color, utf8;
};

void top_init(struct top *t);
void top_fini(struct top *t);

/* The time of what follows. */
void top_time(struct top *t, int64_t now_ms, int64_t now_us);

/* Opens the workers of a run; alone: there is no list behind them. */
void top_open(struct top *t, const char *run, bool alone);
/* An answer of Status about the open job, with all workers. */
void top_take_open(struct top *t, const json_t *job);

/* An answer about GPUs (NULL: none came), for all items of the lists until the next one. */
void top_take_gpus(struct top *t, const json_t *answer);
/* Looks the GPUs of all items up again, after a list got other items. */
void top_find_gpus(struct top *t);

/* Adds a line of logs (borrowed). */
void top_add_line(struct top *t, const char *text);

/* Tells the user something for some seconds. */
void top_notify(struct top *t, bool bad, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

_must_check_ enum top_do top_key(struct top *t, int key);

/*
 * The job whose live figures are to be asked for next: among those to be seen, or, if the list is
 * sorted by a live figure, among all, the one that was asked longest ago. NULL if all were asked
 * since then_ms.
 */
struct top_item *top_next_asked(struct top *t, int64_t then_ms);

/* How many items of the list there is room for. */
size_t top_list_rows(const struct top *t);
