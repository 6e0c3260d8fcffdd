/* SPDX-License-Identifier: Apache-2.0 */
#include "client/doctor/doctor.h"

#include "common/text/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct {
	const char *name;
	enum color color;
} states[] = {
	[DOCTOR_OK] = { "ok", COLOR_GREEN },
	[DOCTOR_WARNING] = { "warning", COLOR_YELLOW },
	[DOCTOR_PROBLEM] = { "problem", COLOR_RED },
};

static void doctor_print(const struct doctor *d, enum doctor_state state, const char *check,
	const char *about, const char *found, const char *advice)
{
	const char *color = ctl_color(d->ctl, states[state].color);

	if (d->ctl->json || (d->ctl->quiet && state == DOCTOR_OK))
		return;
	printf("%s%-7s%s  %s%s%s: %s%s%s\n", color, states[state].name, *color ? COLOR_OFF : "",
		check, about ? " " : "", about ? about : "", found, advice ? "; " : "",
		advice ? advice : "");
	fflush(stdout); /* the next check may wait for other hosts */
}

void doctor_found(struct doctor *d, enum doctor_state state, const char *check, const char *about,
	const char *advice, const char *fmt, ...)
{
	_cleanup_json_ json_t *one = json_object();
	char found[DOCTOR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(found, sizeof(found), fmt, ap);
	va_end(ap);
	d->problems += state == DOCTOR_PROBLEM;
	d->warnings += state == DOCTOR_WARNING;
	json_put_string(one, "check", check);
	json_put(one, "about", about ? json_string_lossy(about, strlen(about)) : json_null());
	json_put_string(one, "state", states[state].name);
	json_put_string(one, "found", found);
	json_put(one, "advice", advice ? json_string_lossy(advice, strlen(advice)) : json_null());
	json_add(d->checks, TAKE_PTR(one));
	doctor_print(d, state, check, about, found, advice);
}

bool doctor_several_hosts(const struct doctor *d)
{
	return d->spec->rendezvous.nodes_max > 1;
}

static void doctor_print_json(const struct doctor *d)
{
	_cleanup_json_ json_t *all = json_object();

	json_put_string(all, "host", d->host);
	json_put_int(all, "problems", d->problems);
	json_put_int(all, "warnings", d->warnings);
	json_put(all, "checks", json_incref(d->checks));
	ctl_print_json(all, false);
}

int doctor_run(struct ctl *ctl, const struct spec *spec, int64_t wait_ms)
{
	_cleanup_(loop_freep) struct loop *loop = NULL;
	_cleanup_json_ json_t *checks = json_array();
	struct doctor d = { .ctl = ctl, .spec = spec, .wait_ms = wait_ms, .checks = checks };

	if (!checks || loop_new(&loop) < 0)
		return ctl_error(ctl, CTL_FAILED, "out of memory");
	d.loop = loop;
	if (gethostname(d.host, sizeof(d.host) - 1) < 0)
		strcpy(d.host, "localhost");
	doctor_check_host(&d);
	if (doctor_several_hosts(&d)) {
		bool can_meet = wait_ms > 0;

		doctor_check_names(&d);
		if (spec->rendezvous.backend == SPEC_RENDEZVOUS_ETCD)
			can_meet = doctor_check_etcd(&d) && can_meet;
		if (can_meet)
			doctor_check_meeting(&d);
	}
	if (ctl->json)
		doctor_print_json(&d);
	return d.problems ? CTL_REFUSED : CTL_DONE;
}
