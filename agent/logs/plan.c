/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/plan.h"

static bool wants_copy(const struct spec_logs *spec, int std)
{
	char *const *texts = std == 0 ? spec->duplicate_stdout : spec->duplicate_stderr;

	return texts && texts[0];
}

static void plan_stream(const struct spec_logs *spec, const struct log_plan_options *opt,
	bool redirect, bool tee, struct log_plan_stream *s)
{
	bool piped = spec->timestamps || spec->max_size > 0;

	s->tee = tee && opt->shown && opt->use_console;
	if (!redirect && !tee && opt->foreground) {
		s->sink = opt->shown ? LOG_SINK_INHERIT : LOG_SINK_NULL;
		return;
	}
	s->file = opt->files;
	if (opt->files)
		s->sink = piped ? LOG_SINK_PIPE : LOG_SINK_FILE;
	else
		s->sink = s->tee ? LOG_SINK_PIPE : LOG_SINK_NULL;
}

void log_plan(const struct spec_logs *spec, int local_rank, const struct log_plan_options *opt,
	struct log_plan *ret)
{
	int redirects = std_map_get(&spec->redirects, local_rank);
	int tee = std_map_get(&spec->tee, local_rank);

	*ret = (struct log_plan){ 0 };
	/* Merged streams share one file: an option set for one stream applies to both. */
	if (spec->merge && redirects)
		redirects = STD_BOTH;
	if (spec->merge && tee)
		tee = STD_BOTH;
	for (int i = 0; i < 2; i++) {
		int bit = i == 0 ? STD_OUT : STD_ERR;

		plan_stream(spec, opt, redirects & bit, tee & bit, &ret->std[i]);
		ret->std[i].copy = opt->files && (tee & bit) && wants_copy(spec, i);
	}
	if (spec->merge && ret->std[1].sink != LOG_SINK_INHERIT &&
		ret->std[1].sink != LOG_SINK_NULL)
		ret->std[1] = (struct log_plan_stream){ .sink = LOG_SINK_STDOUT };
}
