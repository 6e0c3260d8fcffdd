/* SPDX-License-Identifier: Apache-2.0 */
#include "client/base/preemption.h"

#include "client/base/ctl.h"
#include "client/output/time_text.h"
#include "common/base/cleanup.h"
#include "common/base/memstream.h"
#include "common/text/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const json_t *preemption_of(const json_t *job)
{
	const json_t *p = json_object_get(job, "preemption");

	if (!json_is_object(p))
		p = json_object_get(json_object_get(job, "verdict"), "preemption");
	return json_is_object(p) ? p : NULL;
}

char *preemption_who(const json_t *p, int64_t now_us)
{
	const char *source = json_get_string(p, "source", "?"), *reason = get_text(p, "reason");
	int more = (int)get_int(p, "notices") - 1;
	char ago[TIME_TEXT_MAX], others[32] = "";
	char *text = NULL;

	if (more > 0)
		snprintf(others, sizeof(others), " (%d more since)", more);
	if (asprintf(&text, "%s, %s%s%s%s", source,
		    time_text_ago(now_us, get_int(p, "time_us"), ago), others,
		    reason && *reason ? ": " : "", reason ? reason : "") < 0)
		return NULL;
	return text;
}

static const char *state_words(const char *state)
{
	static const char *const words[][2] = {
		{ "agreeing", "agreeing on a step" },
		{ "saving", "saving" },
		{ "countdown", "saved once, goes on until the time is nearly up" },
		{ "leaving", "leaving" },
		{ "over", "over" },
	};

	for (size_t i = 0; state && i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(words[i][0], state))
			return words[i][1];
	return state ? state : "?";
}

static void put_left(FILE *f, const json_t *p, int64_t now_us)
{
	const char *state = get_text(p, "state");
	char left[TIME_TEXT_MAX];

	if (!has_value(p, "deadline_us") || (state && !strcmp(state, "over")))
		return;
	if (get_int(p, "deadline_us") <= now_us)
		fputs(", the time is up", f);
	else
		fprintf(f, ", %s left", time_text_since(get_int(p, "deadline_us"), now_us, left));
}

char *preemption_progress(const json_t *p, int64_t now_us)
{
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return NULL;
	fputs(state_words(get_text(p, "state")), f);
	if (has_value(p, "step"))
		fprintf(f, ", step %lld%s", (long long)get_int(p, "step"),
			json_get_bool(p, "final", false) ? " is the last" : "");
	if (get_int(p, "participants") > 0)
		fprintf(f, ", %lld of %lld saved", (long long)get_int(p, "saved"),
			(long long)get_int(p, "participants"));
	put_left(f, p, now_us);
	return memstream_end(f, &text);
}
