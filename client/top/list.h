/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A list that is sorted, filtered and walked through: the jobs, or the workers of one. Items keep
 * their CPU readings from answer to answer, and the selection stays with its item. Pure.
 */

#include "client/output/table.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TOP_TEXT_MAX = 64 };

struct top_item {
	char *id;	    /* of a job its run, of a worker "role:index" */
	json_t *object;	    /* Job or Worker */
	json_t *live;	    /* of a job: its last Status with live figures; else NULL */
	double cpu;	    /* percent of a processor; -1: not known */
	int64_t cpu_ms;	    /* processor time of the last reading */
	int64_t cpu_at_ms;  /* when that was; 0: never */
	int64_t cpu_of;	    /* of which process */
	int64_t asked_ms;   /* when live figures were asked for; 0: never */
	int rank;	    /* of a job: its first worker here; -1: not known */
	int64_t gpu_bytes;  /* that its processes hold; -1: not known, or none */
	double gpu_percent; /* how busy these GPUs are; -1 likewise */
	size_t order;	    /* in the answer */
	bool stays;	    /* it is in the answer that is being taken */
};

enum top_column_flags {
	TOP_RARE = 1,  /* only shown if an item has a number >= 0 */
	TOP_FALLS = 2, /* sorts the greatest first */
	TOP_LIVE = 4,  /* of a job: known only from a live answer */
	TOP_SIZE = 8,  /* a number of bytes */
};

struct top_column {
	const char *title; /* NULL ends the columns */
	int table;	   /* flags of tables */
	int flags;	   /* of enum top_column_flags */
	/* One of them, to sort by. */
	double (*number)(const struct top_item *item);
	const char *(*text)(const struct top_item *item);
	/* NULL: shows the number as it is. */
	void (*cell)(struct table *t, const struct top_item *item);
};

struct top_list {
	const struct top_column *columns;
	struct top_item **items; /* in the order of the answer */
	size_t n;
	struct top_item **shown; /* the filtered ones in order */
	size_t n_shown;
	char *selected; /* the id; NULL: none */
	size_t at;	/* its place among the shown */
	size_t first;	/* at the upper edge */
	int sort;	/* a column */
	bool backwards;
	char filter[TOP_TEXT_MAX];
};

void top_list_init(struct top_list *l, const struct top_column *columns);
void top_list_clear(struct top_list *l);

/* Updates the items from an array of Jobs (by their runs) or Workers (borrowed). now_us is the time
 * of day. */
void top_list_take(struct top_list *l, const json_t *array, int64_t now_ms, int64_t now_us);
/* Adds the live answer about a job; drops that of a job that is not in the list. */
void top_list_take_live(struct top_list *l, const json_t *job, int64_t now_ms, int64_t now_us);

/* Finds the GPUs of all items in what elastic-agent --gpu-usage has answered. NULL: it has not. */
void top_list_take_gpus(struct top_list *l, const json_t *answer);

/* Filters and sorts again, after a change of filter, sort or backwards. */
void top_list_arrange(struct top_list *l);
/* Selects another one, so many further; moves stop at the ends. */
void top_list_move(struct top_list *l, long delta);
/* Makes the selected one visible in so many rows. */
void top_list_scroll(struct top_list *l, size_t rows);
/* The selected item; NULL where none is shown. */
struct top_item *top_list_selected(const struct top_list *l);
/* The item with that id, shown or not; NULL: there is none. */
struct top_item *top_list_find(const struct top_list *l, const char *id);

/* The next column to sort by, among those to be seen; step 1 or -1. */
void top_list_sort_next(struct top_list *l, int step);
/* Sorts by the column with this title. */
void top_list_sort_column(struct top_list *l, const char *title);

/* The titles and all shown items as lines, the first has the titles. Returns owned, NULL without
 * memory. */
char *top_list_text(const struct top_list *l, const struct table_style *style);
