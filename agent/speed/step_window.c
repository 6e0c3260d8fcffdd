/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/speed/step_window.h"

/* The look that came i before the newest. */
static const struct step_look *step_window_at(const struct step_window *w, unsigned i)
{
	return &w->looks[(w->newest + STEP_WINDOW_LOOKS - i) % STEP_WINDOW_LOOKS];
}

void step_window_add(
	struct step_window *w, uint64_t window_ms, uint64_t at_ms, uint64_t steps, double lag)
{
	if (w->n < 2 || step_window_at(w, 0)->at_ms - step_window_at(w, 1)->at_ms >=
				window_ms / STEP_WINDOW_SHARE) {
		w->newest = w->n ? (w->newest + 1) % STEP_WINDOW_LOOKS : 0;
		w->n += w->n < STEP_WINDOW_LOOKS;
	}
	w->looks[w->newest] = (struct step_look){ .at_ms = at_ms, .steps = steps, .lag = lag };
}

struct step_span step_window_span(const struct step_window *w, uint64_t window_ms)
{
	const struct step_look *newest = step_window_at(w, 0), *oldest = newest;
	struct step_span span = { 0 };
	unsigned n = 0;

	for (; n < w->n && newest->at_ms - step_window_at(w, n)->at_ms <= window_ms; n++) {
		oldest = step_window_at(w, n);
		span.lag += oldest->lag;
	}
	if (!n)
		return span;
	span.made = newest->steps - oldest->steps;
	span.took_ms = newest->at_ms - oldest->at_ms;
	span.lag /= n;
	return span;
}
