/* SPDX-License-Identifier: Apache-2.0 */
#include "client/output/color.h"

#include <errno.h>
#include <string.h>

static const char *const codes[] = {
	[COLOR_NONE] = "",
	[COLOR_BOLD] = "\033[1m",
	[COLOR_DIM] = "\033[2m",
	[COLOR_UNDERLINE] = "\033[4m",
	[COLOR_RED] = "\033[1;31m",
	[COLOR_GREEN] = "\033[1;32m",
	[COLOR_YELLOW] = "\033[1;33m",
	[COLOR_CYAN] = "\033[36m",
};

/* Red is left out: it means trouble. */
static const char *const ranks[] = {
	"\033[36m",
	"\033[33m",
	"\033[32m",
	"\033[35m",
	"\033[34m",
	"\033[96m",
	"\033[93m",
	"\033[92m",
	"\033[95m",
	"\033[94m",
};

const char *color_code(enum color c)
{
	return codes[c];
}

int color_mode_parse(const char *text, enum color_mode *ret)
{
	if (!strcmp(text, "auto"))
		*ret = COLOR_AUTO;
	else if (!strcmp(text, "always") || !strcmp(text, "yes"))
		*ret = COLOR_ALWAYS;
	else if (!strcmp(text, "never") || !strcmp(text, "no"))
		*ret = COLOR_NEVER;
	else
		return -EINVAL;
	return 0;
}

bool color_wanted(enum color_mode mode, bool is_tty, const char *no_color, const char *term)
{
	if (mode != COLOR_AUTO)
		return mode == COLOR_ALWAYS;
	if (no_color && *no_color)
		return false;
	return is_tty && term && *term && strcmp(term, "dumb") != 0;
}

const char *color_rank(int rank)
{
	return ranks[(unsigned)rank % (sizeof(ranks) / sizeof(ranks[0]))];
}

enum color color_state(const char *state)
{
	static const struct {
		const char *state;
		enum color color;
	} rows[] = {
		{ "running", COLOR_GREEN },
		{ "succeeded", COLOR_GREEN },
		{ "failed", COLOR_RED },
		{ "timeout", COLOR_RED },
		{ "agent_lost", COLOR_RED },
		{ "pending", COLOR_YELLOW },
		{ "rendezvous", COLOR_YELLOW },
		{ "starting", COLOR_YELLOW },
		{ "stopping", COLOR_YELLOW },
		{ "backoff", COLOR_YELLOW },
		{ "waiting", COLOR_YELLOW },
		{ "preempted", COLOR_YELLOW },
	};

	for (size_t i = 0; state && i < sizeof(rows) / sizeof(rows[0]); i++)
		if (!strcmp(rows[i].state, state))
			return rows[i].color;
	return COLOR_NONE;
}
