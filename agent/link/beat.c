/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/private.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>

void link_beat_due(void *arg)
{
	struct link *l = arg;
	json_t *body = json_object();
	struct clock_estimate clock;
	int64_t now_us = boottime_us();
	int r;

	/* A beat is known by its time. */
	if (now_us <= l->beat_boot_us)
		now_us = l->beat_boot_us + 1;
	r = json_put_int(body, "boot_us", now_us);
	if (r == 0)
		r = json_put_int(body, "time_us", (int64_t)loop_real_us());
	if (r == 0 && l->heard_boot_us)
		r = json_put_int(body, "answered_boot_us", l->heard_boot_us);
	if (r == 0 && clock_offset_get(&l->clock, &clock)) {
		r = json_put_int(body, "offset_us", clock.offset_us);
		if (r == 0)
			r = json_put_int(body, "uncertainty_us", clock.uncertainty_us);
	}
	if (r == 0)
		r = link_control(l, "Beat", l->window.seen, json_incref(body));
	json_decref(body);
	if (r == 0) {
		l->beat_boot_us = now_us;
		link_window_acknowledged(&l->window);
	}
	loop_timer_arm(l->beat_timer, l->lease_ms / LINK_BEATS_PER_LEASE);
}

static bool report_beat(struct link *l, const struct link_beat *beat)
{
	l->callbacks++;
	if (l->events->beat)
		l->events->beat(l->arg, beat);
	return link_leave_callback(l);
}

/* Takes over what the member has found out, if it can be. */
static void read_clock(const json_t *p, struct link_beat *beat)
{
	int64_t offset_us = json_get_int(p, "offset_us", CLOCK_BEYOND_US);
	int64_t uncertainty_us = json_get_int(p, "uncertainty_us", CLOCK_BEYOND_US);

	if (offset_us <= -CLOCK_BEYOND_US || offset_us >= CLOCK_BEYOND_US || uncertainty_us < 0 ||
		uncertainty_us >= CLOCK_BEYOND_US)
		return;
	beat->clock_known = true;
	beat->offset_us = offset_us;
	beat->uncertainty_us = uncertainty_us;
}

/* When the answer was sent that the member says it has. */
static int64_t read_acked(const struct link *l, const json_t *p)
{
	int64_t beat = json_get_int(p, "answered_boot_us", 0);

	for (int i = 0; beat && i < LINK_ANSWERS; i++)
		if (l->answers[i].beat_boot_us == beat)
			return l->answers[i].sent_boot_us;
	return 0;
}

bool link_beat_came(struct link *l, const json_t *p)
{
	struct link_beat beat = { .came_boot_us = boottime_us(),
		.acked_boot_us = read_acked(l, p) };
	int64_t now_us = (int64_t)loop_real_us();
	json_t *body;
	int r;

	read_clock(p, &beat);
	if (report_beat(l, &beat))
		return true;
	body = json_object();
	r = json_put_int(body, "boot_us", json_get_int(p, "boot_us", 0));
	l->answers[l->n_answers % LINK_ANSWERS].beat_boot_us = json_get_int(p, "boot_us", 0);
	l->answers[l->n_answers++ % LINK_ANSWERS].sent_boot_us = beat.came_boot_us;
	if (r == 0)
		r = json_put_int(body, "time_us", json_get_int(p, "time_us", 0));
	if (r == 0)
		r = json_put_int(body, "came_us", now_us);
	if (r == 0)
		r = json_put_int(body, "sent_us", now_us);
	if (r == 0 && link_control(l, "BeatAnswer", l->window.seen, json_incref(body)) == 0)
		link_window_acknowledged(&l->window);
	json_decref(body);
	return false;
}

/* An answer to a beat, trip_us after it was sent. A head may send any times. */
static void add_answer(struct link *l, const json_t *p, int64_t trip_us)
{
	struct clock_beat beat = { .sent_us = json_get_int(p, "time_us", -1),
		.came_us = json_get_int(p, "came_us", -1),
		.answered_us = json_get_int(p, "sent_us", -1) };

	if (__builtin_add_overflow(beat.sent_us, trip_us, &beat.back_us) ||
		!clock_offset_add(&l->clock, &beat))
		log_debug("link: an answer to a beat has impossible times; the estimate stays");
}

int link_beat_answered(struct link *l, const json_t *p, struct error *err)
{
	struct link_beat beat = { .sent_boot_us = json_get_int(p, "boot_us", 0) };
	struct clock_estimate clock;

	if (beat.sent_boot_us <= l->answered_boot_us || beat.sent_boot_us > l->beat_boot_us)
		return error_field(err, -EPROTO, "parameters.boot_us",
			"expected the time of a beat that has no answer yet, got %" PRId64,
			beat.sent_boot_us);
	l->answered_boot_us = l->heard_boot_us = beat.sent_boot_us;
	add_answer(l, p, boottime_us() - beat.sent_boot_us);
	beat.clock_known = clock_offset_get(&l->clock, &clock);
	if (beat.clock_known) {
		beat.offset_us = clock.offset_us;
		beat.uncertainty_us = clock.uncertainty_us;
	}
	return report_beat(l, &beat) ? 1 : 0;
}
