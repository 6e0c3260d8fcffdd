/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides from the job's specification where a worker's two streams go: torchelastic's rules of
 * redirects, tee and rank filter, and this project's of merge, rotation and stamps. Pure.
 */

#include "common/spec/spec.h"

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
		bool file; /* there is a log file (also when the agent writes it) */
		bool tee;  /* lines go to the console */
		bool copy; /* lines go to the filtered copies */
	} std[2];
};

struct log_plan_options {
	bool foreground;  /* streams that are not redirected are inherited, else they go to files */
	bool files;	  /* there are log files at all */
	bool use_console; /* there is a console for tees */
	bool shown;	  /* the console filter lets the worker's lines through */
};

void log_plan(const struct spec_logs *spec, int local_rank, const struct log_plan_options *opt,
	struct log_plan *ret);
