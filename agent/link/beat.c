/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/private.h"

#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <time.h>

int64_t link_boot_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return ts.tv_sec * INT64_C(1000000) + ts.tv_nsec / 1000;
}

void link_beat_due(void *arg)
{
	struct link *l = arg;
	json_t *body = json_object();
	int64_t offset_us, uncertainty_us, now_us = link_boot_us();
	int r = json_put_int(body, "boot_us", now_us);

	/* A beat is known by its time. */
	if (now_us <= l->beat_boot_us)
		now_us = l->beat_boot_us + 1;
	if (r == 0)
		r = json_put_int(body, "boot_us", now_us);
	if (r == 0)
		r = json_put_int(body, "time_us", (int64_t)loop_real_us());
	if (r == 0 && link_offset_get(&l->offset, &offset_us, &uncertainty_us)) {
		r = json_put_int(body, "offset_us", offset_us);
		if (r == 0)
			r = json_put_int(body, "uncertainty_us", uncertainty_us);
	}
	if (r == 0)
		r = link_control(l, "Beat", l->window.seen, json_incref(body));
	json_decref(body);
	if (r == 0) {
		l->beat_boot_us = now_us;
		link_window_owes_nothing(&l->window);
	}
	loop_timer_arm(l->beat, l->lease_ms / LINK_BEATS_PER_LEASE);
}

static bool tell_beat(struct link *l, const struct link_beat *beat)
{
	l->callbacks++;
	if (l->events && l->events->beat)
		l->events->beat(l->arg, beat);
	return link_leave_callback(l);
}

bool link_beat_came(struct link *l, const json_t *p)
{
	struct link_beat beat = { .came_boot_us = link_boot_us(),
		.clock_known = json_is_integer(json_object_get(p, "offset_us")) &&
			       json_is_integer(json_object_get(p, "uncertainty_us")),
		.offset_us = json_get_int(p, "offset_us", 0),
		.uncertainty_us = json_get_int(p, "uncertainty_us", 0) };
	int64_t now_us = (int64_t)loop_real_us();
	json_t *body = json_object();
	int r = json_put_int(body, "boot_us", json_get_int(p, "boot_us", 0));

	if (r == 0)
		r = json_put_int(body, "time_us", json_get_int(p, "time_us", 0));
	if (r == 0)
		r = json_put_int(body, "came_us", now_us);
	if (r == 0)
		r = json_put_int(body, "sent_us", now_us);
	if (r == 0 && link_control(l, "BeatAnswer", l->window.seen, json_incref(body)) == 0)
		link_window_owes_nothing(&l->window);
	json_decref(body);
	return tell_beat(l, &beat);
}

int link_beat_answered(struct link *l, const json_t *p, struct error *err)
{
	struct link_beat beat = { .sent_boot_us = json_get_int(p, "boot_us", 0) };

	if (beat.sent_boot_us <= l->answered_boot_us || beat.sent_boot_us > l->beat_boot_us)
		return error_field(err, -EPROTO, "parameters.boot_us",
			"expected the time of a beat that has no answer yet, got %" PRId64,
			beat.sent_boot_us);
	l->answered_boot_us = beat.sent_boot_us;
	link_offset_put(&l->offset, json_get_int(p, "time_us", 0),
		link_boot_us() - beat.sent_boot_us, json_get_int(p, "came_us", 0),
		json_get_int(p, "sent_us", 0));
	beat.clock_known = link_offset_get(&l->offset, &beat.offset_us, &beat.uncertainty_us);
	return tell_beat(l, &beat) ? 1 : 0;
}
