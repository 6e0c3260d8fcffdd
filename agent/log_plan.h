/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where a task's two streams go, by its job's specification: torchelastic's rules of redirects, tee
 * and rank filter, and ours of merge, rotation and time stamps. Pure.
 */

#include "common/spec.h"

#include <stdbool.h>

enum log_sink {
	LOG_SINK_INHERIT, /* the agent's own */
	LOG_SINK_NULL,	  /* /dev/null */
	LOG_SINK_FILE,	  /* the file itself */
	LOG_SINK_PIPE,	  /* a pipe; the agent writes the file, if there are files */
	LOG_SINK_STDOUT,  /* the same as stdout's: merged */
};

struct log_plan {
	struct log_plan_stream {
		enum log_sink sink;
		bool file; /* it has a file (also when the agent writes it) */
		bool tee;  /* lines go to the console */
		bool copy; /* lines go to the filtered copies */
	} std[2];
};

struct log_plan_options {
	bool foreground;  /* what is not redirected is inherited, else it goes to files */
	bool files;	  /* there are log files at all */
	bool use_console; /* tees reach one */
	bool shown;	  /* the console filter lets the task through */
};

void log_plan(const struct spec_logs *spec, int local_rank, const struct log_plan_options *opt,
	struct log_plan *ret);
