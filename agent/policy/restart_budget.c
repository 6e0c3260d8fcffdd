/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/restart_budget.h"

#include "common/base/backoff.h"
#include "common/text/duration.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct spec_exit_rule *restart_rule(
	const struct spec_restart *policy, const struct restart_fault *f)
{
	for (size_t i = 0; i < policy->n_codes; i++) {
		const struct spec_exit_rule *r = &policy->codes[i];

		if (r->value == f->value && r->is_signal == (f->cause == RESTART_SIGNAL))
			return r;
	}
	return NULL;
}

static enum spec_exit_class restart_class(
	const struct spec_restart *policy, const struct restart_fault *f)
{
	const struct spec_exit_rule *rule;

	switch (f->cause) {
	case RESTART_EXEC:
		return SPEC_EXIT_FATAL;
	case RESTART_OPERATOR:
	case RESTART_SCALE:
	case RESTART_FINISHED:
		return SPEC_EXIT_FREE;
	case RESTART_EXIT:
	case RESTART_SIGNAL:
		rule = restart_rule(policy, f);
		return rule ? rule->class : SPEC_EXIT_COUNT;
	default:
		return SPEC_EXIT_COUNT;
	}
}

static uint64_t restart_delay(const struct spec_restart *policy, int streak)
{
	uint64_t delay = policy->backoff_ms > 0 ? (uint64_t)policy->backoff_ms : 0;
	uint64_t max = policy->backoff_max_ms == SPEC_UNSET ? delay * 64
							    : (uint64_t)policy->backoff_max_ms;

	return backoff_ms(delay, (uint64_t)streak, max);
}

/* The least delay of a restart that is not counted. */
static uint64_t restart_brake(struct restart_budget *b, const struct restart_fault *f)
{
	b->quick = f->ran_ms < RESTART_QUICK_MS ? b->quick + 1 : 0;
	if (b->quick <= RESTART_QUICK_FREE)
		return 0;
	return backoff_ms(RESTART_QUICK_FIRST_MS, (uint64_t)(b->quick - RESTART_QUICK_FREE - 1),
		RESTART_QUICK_MAX_MS);
}

/* The budget remembers no more times than this. */
static int restart_window_max(const struct spec_restart *policy)
{
	return policy->window_max < RESTART_WINDOW_MAX ? policy->window_max : RESTART_WINDOW_MAX;
}

int restart_window_used(
	const struct spec_restart *policy, const struct restart_budget *b, uint64_t now_ms)
{
	int used = 0;

	if (policy->window_ms == SPEC_UNSET)
		return 0;
	for (size_t i = 0; i < b->n_times; i++)
		if (now_ms < b->times_ms[i] ||
			now_ms - b->times_ms[i] < (uint64_t)policy->window_ms)
			used++;
	return used;
}

int restart_left(const struct spec_restart *policy, const struct restart_budget *b, uint64_t now_ms)
{
	int left = -1;

	if (policy->policy == SPEC_RESTART_NEVER)
		return 0;
	if (policy->max != SPEC_UNSET)
		left = b->used < policy->max ? policy->max - b->used : 0;
	if (policy->window_ms != SPEC_UNSET) {
		int in_window = restart_window_max(policy) - restart_window_used(policy, b, now_ms);

		if (in_window < 0)
			in_window = 0;
		if (left < 0 || in_window < left)
			left = in_window;
	}
	return left;
}

int restart_max_of(const struct spec_restart *policy, enum restart_cause cause)
{
	const struct spec_max_by_cause *m = &policy->max_by_cause;
	int max = cause == RESTART_EXIT		? m->exit
		  : cause == RESTART_SIGNAL	? m->signal
		  : cause == RESTART_HEARTBEAT	? m->heartbeat
		  : cause == RESTART_AGENT_LOST ? m->agent_lost
						: SPEC_UNSET;

	return max == SPEC_UNSET ? -1 : max;
}

static void restart_enter(struct restart_budget *b, uint64_t now_ms)
{
	if (b->n_times == RESTART_WINDOW_MAX) {
		memmove(b->times_ms, b->times_ms + 1, sizeof(b->times_ms) - sizeof(b->times_ms[0]));
		b->n_times--;
	}
	b->times_ms[b->n_times++] = now_ms;
	b->used++;
}

/* Whether the policy itself forbids a restart; text says why. */
static bool restart_refused(const struct spec_restart *policy, const struct restart_fault *f,
	enum spec_exit_class class, char *text, size_t size)
{
	if (f->cause == RESTART_OPERATOR || f->cause == RESTART_SCALE)
		return false;
	if (f->cause == RESTART_EXEC) {
		snprintf(text, size, "a command that cannot be executed is not tried again");
		return true;
	}
	if (policy->policy == SPEC_RESTART_NEVER) {
		snprintf(text, size, "restart.policy is never");
		return true;
	}
	if (class == SPEC_EXIT_FATAL) {
		snprintf(text, size, "%s %d is fatal by restart.codes",
			f->cause == RESTART_SIGNAL ? "signal" : "exit code", f->value);
		return true;
	}
	if (f->cause == RESTART_FINISHED && policy->policy != SPEC_RESTART_ALWAYS) {
		snprintf(text, size, "all workers succeeded");
		return true;
	}
	return false;
}

/* Whether the cause has used up a limit of its own. */
static bool restart_cause_exhausted(const struct spec_restart *policy,
	const struct restart_budget *b, enum restart_cause cause, char *text, size_t size)
{
	int max = restart_max_of(policy, cause);

	if (max < 0 || b->counted_by_cause[cause] < max)
		return false;
	if (max == 0)
		snprintf(text, size, "no restarts by %s are configured (restart.max_by_cause)",
			restart_cause_name(cause));
	else
		snprintf(text, size,
			"the limit of %d restart%s by %s is used (restart.max_by_cause)", max,
			max == 1 ? "" : "s", restart_cause_name(cause));
	return true;
}

static bool restart_exhausted(const struct spec_restart *policy, const struct restart_budget *b,
	uint64_t now_ms, char *text, size_t size)
{
	char window[DURATION_TEXT_MAX];

	if (policy->max != SPEC_UNSET && b->used >= policy->max) {
		if (policy->max == 0)
			snprintf(text, size, "no restarts are configured (restart.max is 0)");
		else if (policy->max == 1)
			snprintf(text, size, "the only restart is used");
		else
			snprintf(text, size, "all %d restarts are used", policy->max);
		return true;
	}
	if (policy->window_ms != SPEC_UNSET &&
		restart_window_used(policy, b, now_ms) >= restart_window_max(policy)) {
		snprintf(text, size, "%d restarts within the last %s are the limit",
			restart_window_max(policy), duration_format(policy->window_ms, window));
		return true;
	}
	return false;
}

void restart_decide(const struct spec_restart *policy, struct restart_budget *b,
	const struct restart_fault *f, uint64_t now_ms, struct restart_decision *ret)
{
	enum spec_exit_class class = restart_class(policy, f);
	bool asked = f->cause == RESTART_OPERATOR || f->cause == RESTART_SCALE;

	memset(ret, 0, sizeof(*ret));
	if (policy->healthy_after_ms != SPEC_UNSET && f->ran_ms >= policy->healthy_after_ms)
		b->streak = 0;
	if (restart_refused(policy, f, class, ret->text, sizeof(ret->text)))
		return;
	if (class == SPEC_EXIT_COUNT &&
		(restart_exhausted(policy, b, now_ms, ret->text, sizeof(ret->text)) ||
			restart_cause_exhausted(policy, b, f->cause, ret->text, sizeof(ret->text))))
		return;
	ret->restart = true;
	ret->counted = class == SPEC_EXIT_COUNT;
	b->by_cause[f->cause]++;
	b->counted_by_cause[f->cause] += ret->counted;
	if (ret->counted)
		restart_enter(b, now_ms);
	else
		b->free++;
	if (!asked)
		ret->delay_ms = restart_delay(policy, b->streak++);
	if (!asked && !ret->counted) {
		uint64_t brake = restart_brake(b, f);

		if (ret->delay_ms < brake)
			ret->delay_ms = brake;
	}
	if (!ret->counted)
		snprintf(ret->text, sizeof(ret->text), "restart (%s), not counted",
			restart_cause_name(f->cause));
	else if (policy->max != SPEC_UNSET)
		snprintf(ret->text, sizeof(ret->text), "restart %d of %d", b->used, policy->max);
	else
		snprintf(ret->text, sizeof(ret->text), "restart %d", b->used);
}

void restart_replay(struct restart_budget *b, const char *cause, bool counted, uint64_t now_ms)
{
	for (int i = 0; i < RESTART_N_CAUSES; i++)
		if (!strcmp(restart_cause_name(i), cause)) {
			b->by_cause[i]++;
			b->counted_by_cause[i] += counted;
		}
	if (counted)
		restart_enter(b, now_ms);
	else
		b->free++;
}

const char *restart_cause_name(enum restart_cause c)
{
	static const char *const names[] = {
#define X(name, text) [RESTART_##name] = text,
		RESTART_CAUSES(X)
#undef X
	};
	return names[c];
}

json_t *restart_save(const struct restart_budget *b)
{
	json_t *causes = json_object(), *counted = json_object();
	json_t *times = json_array();

	for (int i = 0; i < RESTART_N_CAUSES; i++) {
		json_object_set_new(causes, restart_cause_name(i), json_integer(b->by_cause[i]));
		json_object_set_new(
			counted, restart_cause_name(i), json_integer(b->counted_by_cause[i]));
	}
	for (size_t i = 0; i < b->n_times; i++)
		json_array_append_new(times, json_integer((json_int_t)b->times_ms[i]));
	return json_pack("{s:i, s:i, s:i, s:i, s:o, s:o, s:o}", "used", b->used, "free", b->free,
		"streak", b->streak, "quick", b->quick, "by_cause", causes, "counted_by_cause",
		counted, "times_ms", times);
}

static bool restart_count_ok(json_int_t n)
{
	return n >= 0 && n <= 1000000000;
}

static int restart_load_causes(const json_t *saved, int *causes)
{
	for (int i = 0; i < RESTART_N_CAUSES; i++) {
		const json_t *n = json_object_get(saved, restart_cause_name(i));

		if (n && (!json_is_integer(n) || !restart_count_ok(json_integer_value(n))))
			return -EINVAL;
		causes[i] = (int)json_integer_value(n);
	}
	return 0;
}

int restart_load(struct restart_budget *b, const json_t *saved, uint64_t now_ms)
{
	struct restart_budget new = { 0 };
	json_t *causes, *times, *t;
	json_int_t used, free_ones, streak, quick = 0;
	size_t i;

	if (json_unpack((json_t *)saved, "{s:I, s:I, s:I, s?I, s:o, s:o}", "used", &used, "free",
		    &free_ones, "streak", &streak, "quick", &quick, "by_cause", &causes, "times_ms",
		    &times) ||
		!json_is_object(causes) || !json_is_array(times) ||
		json_array_size(times) > RESTART_WINDOW_MAX || !restart_count_ok(used) ||
		!restart_count_ok(free_ones) || !restart_count_ok(streak) ||
		!restart_count_ok(quick))
		return -EINVAL;
	new.used = (int)used;
	new.free = (int)free_ones;
	new.streak = (int)streak;
	new.quick = (int)quick;
	if (restart_load_causes(causes, new.by_cause) < 0 ||
		restart_load_causes(
			json_object_get(saved, "counted_by_cause"), new.counted_by_cause) < 0)
		return -EINVAL;
	json_array_foreach (times, i, t) {
		json_int_t at = json_integer_value(t);

		if (!json_is_integer(t) || at < 0)
			return -EINVAL;
		new.times_ms[new.n_times++] = (uint64_t)at < now_ms ? (uint64_t)at : now_ms;
	}
	*b = new;
	return 0;
}
