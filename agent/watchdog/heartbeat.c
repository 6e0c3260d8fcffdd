/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/watchdog/heartbeat.h"

#include "common/text/duration.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { HEARTBEAT_SHORTEST_MS = 20, HEARTBEAT_LONGEST_MS = 30000, HEARTBEAT_FAILURES = 3 };

/* The time limit for one kind of progress after its first sign; SPEC_UNSET: none. */
static int64_t heartbeat_limit_of(const struct spec_heartbeat *s, enum heartbeat_progress kind)
{
	switch (kind) {
	case HEARTBEAT_STEP:
		return s->progress_timeout_ms;
	case HEARTBEAT_LOG:
		return s->log_timeout_ms;
	case HEARTBEAT_MATCH:
		return s->log_pattern_timeout_ms;
	default:
		return s->progress_file_timeout_ms;
	}
}

static int64_t heartbeat_limit(const struct heartbeat *h, enum heartbeat_progress kind)
{
	int64_t limit = heartbeat_limit_of(h->spec, kind);

	if (limit != SPEC_UNSET && !h->signs[kind].seen &&
		h->spec->progress_start_timeout_ms != SPEC_UNSET)
		return h->spec->progress_start_timeout_ms;
	return limit;
}

static uint64_t heartbeat_timeout(const struct spec_heartbeat *s)
{
	return (uint64_t)(s->timeout_ms != SPEC_UNSET ? s->timeout_ms : s->period_ms);
}

bool heartbeat_wanted(const struct spec_heartbeat *spec)
{
	if (spec->period_ms != SPEC_UNSET)
		return true;
	for (int i = 0; i < HEARTBEAT_N_PROGRESS; i++)
		if (heartbeat_limit_of(spec, i) != SPEC_UNSET)
			return true;
	return false;
}

/* The time between two checks. */
static uint64_t heartbeat_period(const struct heartbeat *h)
{
	int64_t shortest = HEARTBEAT_LONGEST_MS * INT64_C(8);

	if (h->spec->period_ms != SPEC_UNSET)
		return (uint64_t)h->spec->period_ms;
	for (int i = 0; i < HEARTBEAT_N_PROGRESS; i++) {
		int64_t limit = heartbeat_limit(h, i);

		if (limit != SPEC_UNSET && limit < shortest)
			shortest = limit;
	}
	shortest /= 8;
	return shortest < HEARTBEAT_SHORTEST_MS ? HEARTBEAT_SHORTEST_MS : (uint64_t)shortest;
}

/* Moves *next to since + limit, if that is earlier. */
static void heartbeat_earliest(uint64_t *next, uint64_t since_ms, int64_t limit_ms)
{
	if (limit_ms != SPEC_UNSET && since_ms + (uint64_t)limit_ms < *next)
		*next = since_ms + (uint64_t)limit_ms;
}

/* True when a failure ends the checks. */
static bool heartbeat_failure_is_final(const struct spec_heartbeat *s)
{
	return s->on_failure != SPEC_HEARTBEAT_REPORT;
}

static uint64_t heartbeat_due(const struct heartbeat *h)
{
	uint64_t next = h->checked_ms + heartbeat_period(h);

	if (!heartbeat_wanted(h->spec) || h->paused)
		return UINT64_MAX;
	if (h->over)
		return heartbeat_failure_is_final(h->spec) ? UINT64_MAX : next;
	if (h->spec->period_ms != SPEC_UNSET && h->beaten)
		heartbeat_earliest(&next, h->silent_ms, (int64_t)heartbeat_timeout(h->spec));
	if (!h->beaten)
		heartbeat_earliest(&next, h->started_ms, h->spec->start_timeout_ms);
	for (int i = 0; i < HEARTBEAT_N_PROGRESS; i++)
		heartbeat_earliest(&next, h->signs[i].at_ms, heartbeat_limit(h, i));
	return next;
}

void heartbeat_start(struct heartbeat *h, const struct spec_heartbeat *spec, uint64_t now_ms)
{
	*h = (struct heartbeat){ .spec = spec,
		.started_ms = now_ms,
		.checked_ms = now_ms,
		.beat_ms = now_ms,
		.silent_ms = now_ms };
	for (int i = 0; i < HEARTBEAT_N_PROGRESS; i++)
		h->signs[i].at_ms = now_ms;
	h->due_ms = heartbeat_due(h);
}

/* Excludes ms from all times that are measured. */
static void heartbeat_shift(struct heartbeat *h, uint64_t ms)
{
	h->started_ms += ms;
	h->beat_ms += ms;
	h->silent_ms += ms;
	for (int i = 0; i < HEARTBEAT_N_PROGRESS; i++)
		h->signs[i].at_ms += ms;
}

/* Excludes the delay of a check that is a period or more late. */
static void heartbeat_exclude_delay(struct heartbeat *h, uint64_t now_ms)
{
	if (now_ms > h->due_ms && now_ms - h->due_ms >= heartbeat_period(h))
		heartbeat_shift(h, now_ms - h->due_ms);
}

void heartbeat_pause(struct heartbeat *h, uint64_t now_ms)
{
	if (h->paused)
		return;
	if (now_ms < h->checked_ms)
		now_ms = h->checked_ms;
	heartbeat_exclude_delay(h, now_ms);
	h->paused = true;
	h->paused_ms = now_ms;
	h->due_ms = heartbeat_due(h);
}

void heartbeat_resume(struct heartbeat *h, uint64_t now_ms)
{
	if (!h->paused)
		return;
	if (now_ms < h->paused_ms)
		now_ms = h->paused_ms;
	heartbeat_shift(h, now_ms - h->paused_ms);
	h->paused = false;
	h->checked_ms = h->silent_ms = now_ms;
	h->due_ms = heartbeat_due(h);
	if (h->due_ms < now_ms) /* a limit was over before the pause: check at once */
		h->due_ms = now_ms;
}

__attribute__((format(printf, 4, 5))) static void heartbeat_describe(struct heartbeat_verdict *v,
	enum heartbeat_finding finding, uint64_t ms, const char *fmt, ...)
{
	char how_long[DURATION_TEXT_MAX];
	va_list ap;
	size_t n;

	v->finding = finding;
	v->silent_ms = ms;
	va_start(ap, fmt);
	vsnprintf(v->text, sizeof(v->text), fmt, ap);
	va_end(ap);
	n = strlen(v->text);
	snprintf(v->text + n, sizeof(v->text) - n, " for %s", duration_text((int64_t)ms, how_long));
}

static void heartbeat_append(struct heartbeat_verdict *v, const char *text)
{
	size_t n = strlen(v->text);

	snprintf(v->text + n, sizeof(v->text) - n, "%s", text);
}

/* The beats have moved since the last check. */
static void heartbeat_new_beat(struct heartbeat *h, uint64_t now_ms, struct heartbeat_verdict *v)
{
	if (h->misses > 0) {
		heartbeat_describe(
			v, HEARTBEAT_BACK, now_ms - h->beat_ms, "beats again after none");
		h->misses = 0;
	}
	h->beaten = true;
	h->beat_ms = h->silent_ms = now_ms;
}

static void heartbeat_check_silence(
	struct heartbeat *h, uint64_t now_ms, struct heartbeat_verdict *v)
{
	int failures = h->spec->failures > 0 ? h->spec->failures : HEARTBEAT_FAILURES;
	char which[48];

	if (!h->beaten) {
		if (h->spec->start_timeout_ms == SPEC_UNSET ||
			now_ms - h->started_ms < (uint64_t)h->spec->start_timeout_ms)
			return;
		heartbeat_describe(v, HEARTBEAT_LOST, now_ms - h->started_ms, "no first beat");
		return;
	}
	if (now_ms - h->silent_ms < heartbeat_timeout(h->spec))
		return;
	h->silent_ms = now_ms;
	h->misses++;
	heartbeat_describe(v, h->misses < failures ? HEARTBEAT_MISSED : HEARTBEAT_LOST,
		now_ms - h->beat_ms, "no beat");
	snprintf(which, sizeof(which), " (%d of %d)", h->misses, failures);
	heartbeat_append(v, which);
}

static void heartbeat_check_progress(struct heartbeat *h, const struct heartbeat_sample *sample,
	uint64_t now_ms, struct heartbeat_verdict *v)
{
	const uint64_t counts[HEARTBEAT_N_PROGRESS] = {
		[HEARTBEAT_STEP] = sample->steps,
		[HEARTBEAT_LOG] = sample->log_bytes,
		[HEARTBEAT_MATCH] = sample->log_matches,
		[HEARTBEAT_FILE] = sample->file_changes,
	};
	static const char *const silence[HEARTBEAT_N_PROGRESS] = {
		[HEARTBEAT_STEP] = "no step",
		[HEARTBEAT_LOG] = "no output",
		[HEARTBEAT_MATCH] = "no line that matches log_pattern",
		[HEARTBEAT_FILE] = "no change of progress_file",
	};

	for (int i = 0; i < HEARTBEAT_N_PROGRESS; i++) {
		struct heartbeat_sign *s = &h->signs[i];
		int64_t limit = heartbeat_limit(h, i);

		if (s->count != counts[i]) {
			s->count = counts[i];
			s->at_ms = now_ms;
			s->seen = true;
		} else if (limit != SPEC_UNSET && now_ms - s->at_ms >= (uint64_t)limit &&
			   v->finding != HEARTBEAT_LOST && v->finding != HEARTBEAT_STUCK) {
			heartbeat_describe(v, HEARTBEAT_STUCK, now_ms - s->at_ms, "%s", silence[i]);
			if (!s->seen)
				heartbeat_append(v, " since its start");
		}
	}
}

static void heartbeat_check_beats(struct heartbeat *h, const struct heartbeat_sample *sample,
	uint64_t now_ms, struct heartbeat_verdict *v)
{
	bool ours = sample->token && sample->expected;

	if (ours && (!h->beaten || sample->beats != h->beats))
		heartbeat_new_beat(h, now_ms, v);
	else
		heartbeat_check_silence(h, now_ms, v);
	h->beats = sample->beats;
}

/* After a failure that was only reported: the next sign of life starts the checks again. */
static bool heartbeat_revive(struct heartbeat *h, const struct heartbeat_sample *s, uint64_t now_ms)
{
	const struct heartbeat before = *h;
	struct heartbeat_verdict none = { .finding = HEARTBEAT_FINE };
	bool sign = s->beats != h->beats;

	if (heartbeat_failure_is_final(h->spec) ||
		(s->token && s->expected && s->token != s->expected))
		return false;
	sign |= s->steps != h->signs[HEARTBEAT_STEP].count ||
		s->log_bytes != h->signs[HEARTBEAT_LOG].count ||
		s->log_matches != h->signs[HEARTBEAT_MATCH].count ||
		s->file_changes != h->signs[HEARTBEAT_FILE].count;
	if (!sign) {
		h->checked_ms = now_ms;
		h->due_ms = heartbeat_due(h);
		return false;
	}
	heartbeat_start(h, before.spec, now_ms);
	h->beaten = before.beaten;
	memcpy(h->signs, before.signs, sizeof(h->signs));
	for (int i = 0; i < HEARTBEAT_N_PROGRESS; i++)
		h->signs[i].at_ms = now_ms;
	heartbeat_check_progress(h, s, now_ms, &none);
	h->beats = s->beats;
	h->due_ms = heartbeat_due(h);
	return true;
}

struct heartbeat_verdict heartbeat_check(
	struct heartbeat *h, const struct heartbeat_sample *sample, uint64_t now_ms)
{
	struct heartbeat_verdict v = { .finding = HEARTBEAT_FINE };

	if (now_ms < h->checked_ms)
		now_ms = h->checked_ms; /* a clock that goes back counts as standing still */
	if (h->paused)
		return v;
	if (h->over) {
		if (heartbeat_revive(h, sample, now_ms)) {
			v.finding = HEARTBEAT_BACK;
			snprintf(v.text, sizeof(v.text), "shows life again");
		}
		return v;
	}
	heartbeat_exclude_delay(h, now_ms);
	h->checked_ms = now_ms;
	if (sample->token && sample->expected && sample->token != sample->expected) {
		v.finding = HEARTBEAT_STALE;
		snprintf(v.text, sizeof(v.text),
			"an earlier process of this worker beats in its place");
	} else {
		if (h->spec->period_ms != SPEC_UNSET)
			heartbeat_check_beats(h, sample, now_ms, &v);
		heartbeat_check_progress(h, sample, now_ms, &v);
	}
	h->over = v.finding >= HEARTBEAT_LOST;
	h->due_ms = heartbeat_due(h);
	return v;
}

uint64_t heartbeat_next(const struct heartbeat *h, uint64_t now_ms)
{
	return h->due_ms > now_ms ? h->due_ms : now_ms;
}
