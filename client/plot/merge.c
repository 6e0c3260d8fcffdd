/* SPDX-License-Identifier: Apache-2.0 */
#include "client/plot/merge.h"

double scale_x(const struct scale *s, int64_t at)
{
	return (double)(at - s->from) / (double)(s->to - s->from) * s->width;
}

static double scale_length(const struct scale *s, int64_t from, int64_t to)
{
	return scale_x(s, to) - scale_x(s, from);
}

size_t merge_starts(const struct scale *s, const struct plot_worker *w, size_t i)
{
	const struct plot_start *first = &w->starts[i], *last = first;

	if (scale_length(s, first->from, first->to) >= s->bar)
		return i + 1;
	while (++i < w->n) {
		const struct plot_start *next = &w->starts[i];

		if (scale_length(s, next->from, next->to) >= s->bar ||
			scale_length(s, last->to, next->from) >= s->bar)
			break;
		last = next;
	}
	return i;
}

size_t merge_waits(const struct scale *s, const struct plot_worker *w, size_t i)
{
	const struct plot_wait *first = &w->waits[i];

	while (++i < w->n_waits && scale_length(s, first->from, w->waits[i].to) < s->wait)
		;
	return i;
}

size_t merge_phases(const struct scale *s, const struct plot *p, size_t i)
{
	const struct plot_phase *phases = p->phases;

	if (scale_length(s, phases[i].from, phases[i].to) >= s->bar)
		return i + 1;
	while (++i < p->n_phases)
		if (scale_length(s, phases[i].from, phases[i].to) >= s->bar)
			break;
	return i;
}

bool merge_marks(const struct scale *s, const struct plot_marks *marks, enum plot_kind kind,
	size_t *at, struct merged *ret)
{
	double length = kind >= PLOT_BEAT ? s->major : s->mark;
	size_t i = *at;

	while (i < marks->n && marks->items[i].kind != kind)
		i++;
	if (i == marks->n)
		return false;
	*ret = (struct merged){ .first = &marks->items[i], .last = &marks->items[i] };
	for (; i < marks->n; i++) {
		const struct plot_mark *m = &marks->items[i];

		if (m->kind != kind)
			continue;
		if (scale_length(s, ret->first->at, m->at) >= length)
			break;
		ret->last = m;
		ret->n++;
	}
	*at = i;
	return true;
}

static size_t count_marks(const struct scale *s, const struct plot_marks *marks)
{
	size_t count = 0;

	for (int kind = 0; kind < PLOT_N_KINDS; kind++) {
		struct merged group;
		size_t at = 0;

		while (merge_marks(s, marks, kind, &at, &group))
			count++;
	}
	return count;
}

static size_t count_all_marks(const struct scale *s, const struct plot *p)
{
	size_t count = count_marks(s, &p->marks);

	for (size_t i = 0; i < p->n_workers; i++)
		count += count_marks(s, &p->workers[i].marks);
	for (size_t i = 0; i < p->n_hosts; i++)
		count += count_marks(s, &p->hosts[i].marks);
	return count;
}

static size_t count_bars(const struct scale *s, const struct plot *p)
{
	size_t count = 0;

	for (size_t i = 0; i < p->n_phases; i = merge_phases(s, p, i))
		count++;
	for (size_t i = 0; i < p->n_workers; i++)
		for (size_t k = 0; k < p->workers[i].n; k = merge_starts(s, &p->workers[i], k))
			count++;
	return count;
}

static size_t count_waits(const struct scale *s, const struct plot *p)
{
	size_t count = 0;

	for (size_t i = 0; i < p->n_workers; i++)
		for (size_t k = 0; k < p->workers[i].n_waits; k = merge_waits(s, &p->workers[i], k))
			count++;
	return count;
}

void merge_fit(struct scale *s, const struct plot *p, const struct merge_limits *limits)
{
	/* At the whole width each lane has one group, whatever the limits are. */
	while (s->bar < s->width && count_bars(s, p) > limits->bars)
		s->bar *= 2;
	while (s->wait < s->width && count_waits(s, p) > limits->waits)
		s->wait *= 2;
	while (s->mark < s->width && count_all_marks(s, p) > limits->marks)
		s->mark *= 2;
	while (s->major < s->width && count_all_marks(s, p) > limits->marks)
		s->major *= 2;
}
