/* SPDX-License-Identifier: Apache-2.0 */
/* errors and why: what failed, and what the restart policy makes of it. */
#include "client/humane.h"
#include "client/job.h"
#include "client/verbs.h"
#include "common/duration.h"
#include "common/report.h"

#include <string.h>

int cmd_errors(struct ctl *ctl, struct args *args)
{
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_free_ char *text = NULL;
	const char *job = args->argv[0];
	struct error err = { 0 };
	int64_t attempt = -1;
	json_t *failures, *p = ctl_job(job);
	char heading[160];
	int r;

	if (args_int(args, "attempt", 0, &attempt, &err) < 0) {
		json_decref(p);
		return ctl_usage(ctl, "%s", err.text);
	}
	if (attempt >= 0)
		p = ctl_with(p, "attempt", json_integer(attempt));
	r = ctl_call(ctl, "Errors", p, &answer);
	if (r != 0)
		return r;
	failures = json_object_get(answer, "failures");
	if (ctl->json) {
		ctl_print_json(failures, false);
		return 0;
	}
	if (json_array_size(failures) == 0) {
		ctl_say(ctl, "%s: no failures%s", job, attempt >= 0 ? " in this attempt" : "");
		return 0;
	}
	snprintf(heading, sizeof(heading), "%.100s attempt %d", job,
		(int)get_int(json_array_get(failures, 0), "attempt"));
	text = report_format(heading, failures, ctl->color_out);
	if (!text)
		return ctl_error(ctl, CTL_FAILED, "out of memory");
	fputs(text, stdout);
	return 0;
}

static void budget_print(const struct ctl *ctl, const json_t *budget)
{
	const json_t *causes = json_object_get(budget, "by_cause");
	const char *cause;
	char text[DURATION_TEXT_MAX], ago[HUMANE_TEXT_MAX];
	json_t *n;

	printf("%10s: %d of %d", "Counted", (int)get_int(budget, "used"),
		(int)get_int(budget, "max"));
	if (get_int(budget, "left") >= 0)
		printf(", %d left", (int)get_int(budget, "left"));
	putchar('\n');
	if (has_value(budget, "window_ms") && has_value(budget, "window_max"))
		printf("%10s: %d of %d within %s\n", "Window", (int)get_int(budget, "window_used"),
			(int)get_int(budget, "window_max"),
			duration_humane(get_int(budget, "window_ms"), text));
	printf("%10s: %d\n", "Free", (int)get_int(budget, "free"));
	json_object_foreach ((json_t *)causes, cause, n)
		printf("%10s: %d %s\n", "Cause", (int)json_integer_value(n), cause);
	if (get_int(budget, "backoff_ms") > 0)
		printf("%10s: %s\n", "Backoff",
			duration_humane(get_int(budget, "backoff_ms"), text));
	if (has_value(budget, "next_try_us"))
		printf("%10s: %s%s%s\n", "Next try", ctl_color(ctl, COLOR_YELLOW),
			humane_ago(ctl_now_us(), get_int(budget, "next_try_us"), ago),
			*ctl_color(ctl, COLOR_YELLOW) ? COLOR_OFF : "");
}

int cmd_why(struct ctl *ctl, struct args *args)
{
	_cleanup_json_ json_t *answer = NULL;
	const char *text;
	int r = ctl_call(ctl, "Why", ctl_job(args->argv[0]), &answer);

	if (r != 0)
		return r;
	if (ctl->json) {
		ctl_print_json(answer, false);
		return 0;
	}
	text = get_text(answer, "text");
	if (text && *text)
		printf("%s%s", text, text[strlen(text) - 1] == '\n' ? "" : "\n");
	budget_print(ctl, json_object_get(answer, "budget"));
	return 0;
}
