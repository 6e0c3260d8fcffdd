/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A Job object as the numbers that a monitoring system keeps over time. The table is all that is
 * known about a metric of jobs: where its value stands in the Job, and what it says to
 * readers. Pure.
 */

#include <jansson.h>
#include <stddef.h>

enum metric_type { METRIC_GAUGE, METRIC_COUNTER };

/* A row that has the name of the one before belongs to the same metric. */
struct metric_row {
	const char *name; /* as readers see it, without "_total" */
	enum metric_type type;
	const char *help;
	const char *label, *value; /* distinguishes the rows of one metric; or NULL */
	const char *path;	   /* of the number in the Job: "queue.queued" */
	double scale;		   /* what the number is multiplied by */
};

extern const struct metric_row metric_rows[];
extern const size_t metric_n_rows;

enum { METRIC_ROWS_MAX = 64 };

/* One value for each row; NAN: the Job has none. */
struct job_numbers {
	double values[METRIC_ROWS_MAX];
};

/* job is borrowed; NULL: it has no numbers. */
void job_numbers_read(const json_t *job, struct job_numbers *ret);
