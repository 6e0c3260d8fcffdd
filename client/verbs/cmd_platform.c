/* SPDX-License-Identifier: Apache-2.0 */
/* platform: the cloud that this host is in, and the sources that would announce its end. */
#include "client/base/job.h"
#include "client/output/time_text.h"
#include "client/verbs/verbs.h"
#include "common/base/platform.h"

#include <errno.h>
#include <string.h>

static enum color color_of(const char *state)
{
	if (!strcmp(state, "watching"))
		return COLOR_GREEN;
	if (!strcmp(state, "failing"))
		return COLOR_RED;
	return strcmp(state, "notice") ? COLOR_NONE : COLOR_YELLOW;
}

static void watches_table(const struct ctl *ctl, const json_t *watches)
{
	static const struct table_column columns[] = { { "SOURCE", 0 }, { "STATE", 0 },
		{ "JOBS", TABLE_RIGHT | TABLE_DROP(2) }, { "LAST", TABLE_RIGHT | TABLE_DROP(1) },
		{ "TEXT", 0 }, { NULL, 0 } };
	_cleanup_(table_freep) struct table *t = table_new(columns);
	struct table_style style = ctl_table_style(ctl);
	char ago[TIME_TEXT_MAX];
	json_t *w;
	size_t i;

	if (!t || json_array_size(watches) == 0)
		return;
	json_array_foreach (watches, i, w) {
		const char *state = get_text(w, "state");

		table_cell(t, COLOR_BOLD, get_text(w, "source"));
		table_cell(t, color_of(state ? state : ""), state);
		table_cellf(t, COLOR_NONE, "%d", (int)get_int(w, "jobs"));
		if (has_value(w, "last_us"))
			table_cell(t, COLOR_NONE,
				time_text_ago(ctl_now_us(), get_int(w, "last_us"), ago));
		else
			table_cell(t, COLOR_DIM, "-");
		table_cell(t, COLOR_NONE, get_text(w, "text"));
	}
	if (style.legend)
		putchar('\n');
	table_print(t, stdout, &style);
}

static void print_platform(const struct ctl *ctl, const char *platform, const char *details)
{
	if (ctl->quiet)
		return;
	printf("%s%s%s%s%s\n", ctl_color(ctl, COLOR_BOLD), platform,
		*ctl_color(ctl, COLOR_BOLD) ? COLOR_OFF : "", *details ? ": " : "", details);
}

/* Without elasticd: reads the firmware only, without the network. */
static int platform_here(struct ctl *ctl)
{
	char details[256] = "";
	const char *name = platform_name(platform_from_dmi(NULL, details, sizeof(details)));

	if (ctl->json) {
		_cleanup_json_ json_t *found = json_pack("{s:s, s:s, s:[], s:n}", "platform", name,
			"details", details, "watches", "daemon");

		ctl_print_json(found, false);
	} else {
		print_platform(ctl, name, details);
		ctl_say(ctl, "elasticd is not running on %s: no notices are watched for",
			ctl->socket);
	}
	return CTL_NO_DAEMON;
}

int cmd_platform(struct ctl *ctl, struct args *args)
{
	_cleanup_(varlink_sync_freep) struct varlink_sync *link = NULL;
	_cleanup_json_ json_t *answer = NULL;
	const char *platform, *details;
	struct error err = { 0 };
	int r;

	r = ctl_open(ctl, &link, &err);
	if (r < 0)
		return r == -EPERM ? ctl_cannot_connect(ctl, r, &err) : platform_here(ctl);
	ctl->link = TAKE_PTR(link);
	r = ctl_call(ctl, "Platform", NULL, &answer);
	if (r != 0)
		return r;
	if (ctl->json) {
		ctl_print_json(answer, false);
		return 0;
	}
	platform = get_text(answer, "platform");
	details = get_text(answer, "details");
	print_platform(ctl, platform ? platform : "?", details ? details : "");
	if (!ctl->quiet)
		watches_table(ctl, json_object_get(answer, "watches"));
	return 0;
}
