/* SPDX-License-Identifier: Apache-2.0 */
#include "client/launch/table.h"

#include <ctype.h>
#include <string.h>

const struct arg_option launch_options[] = {
#define X(id, name_, letter_, value_, words_, flags, group, apply, help_)                         \
	[OPT_##id] = {                                                                            \
		.name = name_, .value = value_, .help = help_, .words = words_, .letter = letter_ \
	},
	LAUNCH_OPTIONS(X)
#undef X
		[OPT_COUNT] = { .name = NULL },
};

const struct launch_row launch_rows[OPT_COUNT] = {
#define X(id, name, letter, value, words, flags_, group_, apply_, help) \
	[OPT_##id] = { .apply = apply_, .flags = flags_, .group = group_ },
	LAUNCH_OPTIONS(X)
#undef X
};

const char *launch_pet_name(const struct arg_option *option, char buf[LAUNCH_PET_MAX])
{
	size_t i = option - launch_options;

	if (!(launch_rows[i].flags & PET))
		return NULL;
	snprintf(buf, LAUNCH_PET_MAX, "PET_%s", option->name);
	for (char *p = buf; *p; p++)
		*p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
	return buf;
}

void launch_print_options(FILE *f)
{
	static const char *const titles[GROUP_COUNT] = {
		[GROUP_JOB] = "Job",
		[GROUP_SIZE] = "Size",
		[GROUP_PROGRAM] = "Program",
		[GROUP_LOGS] = "Logs",
		[GROUP_FAILURES] = "Failures, restarts and stopping",
		[GROUP_RENDEZVOUS] = "Rendezvous",
		[GROUP_NO_EFFECT] = "Accepted without effect",
	};

	for (int g = 0; g < GROUP_COUNT; g++) {
		if (!titles[g])
			continue;
		fprintf(f, "%s%s:\n", g ? "\n" : "", titles[g]);
		for (int i = 0; i < OPT_COUNT; i++)
			if (launch_rows[i].group == (enum launch_group)g)
				arg_option_print(f, &launch_options[i]);
	}
}
