/* SPDX-License-Identifier: Apache-2.0 */
#include "client/plot/lanes.h"

#include "client/output/time_text.h"
#include "client/plot/xml.h"

#include <errno.h>
#include <string.h>

enum {
	LANE_GROUP_HEIGHT = 22,
	LANE_EVENTS_HEIGHT = 18,
	LANE_TITLE_HEIGHT = 20,
	LANE_HOST_HEIGHT = 16
};
/* Texts of tooltips, in bytes: a picture may have thousands. */
enum { LANE_TEXT_MAX = 200 };

#define LANE_LABEL_SIZE 11.5
#define LANE_RANK_WIDTH 34

/* --- layout --- */

static double row_height(size_t workers)
{
	return workers <= 8 ? 28 : workers <= 24 ? 20 : workers <= 80 ? 14 : workers <= 200 ? 9 : 5;
}

static void lane_add(struct lanes *l, enum lane_kind kind, size_t index, double height)
{
	l->items[l->n++] = (struct lane){ kind, index, l->height, height };
	l->height += height;
}

static bool have_mark(const struct plot_marks *marks, enum plot_kind kind)
{
	for (size_t i = 0; i < marks->n; i++)
		if (marks->items[i].kind == kind)
			return true;
	return false;
}

int lanes_init(struct lanes *l)
{
	const struct plot *p = l->p;
	int source = -1;

	l->items = calloc(p->n_workers + p->n_sources + p->n_hosts + 4, sizeof(*l->items));
	if (!l->items)
		return -ENOMEM;
	l->row = row_height(p->n_workers);
	l->glyph = l->row >= 20 ? 1 : l->row >= 14 ? 0.85 : l->row >= 9 ? 0.7 : 0.5;
	lane_add(l, LANE_GROUP, 0, LANE_GROUP_HEIGHT);
	if (p->marks.n)
		lane_add(l, LANE_EVENTS, 0, LANE_EVENTS_HEIGHT);
	for (size_t i = 0; i < p->n_hosts; i++)
		lane_add(l, LANE_HOST, i, LANE_HOST_HEIGHT);
	for (size_t i = 0; i < p->n_workers; i++) {
		if (i >= LANES_WORKERS && !have_mark(&p->workers[i].marks, PLOT_ROOT)) {
			l->left_out++;
			continue;
		}
		if (p->workers[i].source != source) {
			source = p->workers[i].source;
			lane_add(l, LANE_TITLE, source, LANE_TITLE_HEIGHT);
		}
		lane_add(l, LANE_WORKER, i, l->row);
	}
	if (l->left_out)
		lane_add(l, LANE_MORE, 0, LANE_TITLE_HEIGHT);
	return 0;
}

void lanes_fini(struct lanes *l)
{
	free(l->items);
}

/* --- names --- */

static const char *worker_name(const struct plot_worker *w, char buf[32])
{
	if (w->name)
		return w->name;
	snprintf(buf, 32, "rank %d", w->rank);
	return buf;
}

double lanes_labels_width(const struct plot *p)
{
	double widest = xml_width("worker:0", LANE_LABEL_SIZE);
	char buf[32];

	for (size_t i = 0; i < p->n_workers; i++) {
		double w = xml_width(worker_name(&p->workers[i], buf), LANE_LABEL_SIZE);

		widest = w > widest ? w : widest;
	}
	for (size_t i = 0; i < p->n_hosts; i++) {
		double w = xml_width(p->hosts[i].name, LANE_LABEL_SIZE) - LANE_RANK_WIDTH;

		widest = w > widest ? w : widest;
	}
	return widest + LANE_RANK_WIDTH;
}

static void draw_label(const struct lanes *l, const char *class, double x, double y, double size,
	const char *text, double room)
{
	size_t max = xml_fits(text, size, room);

	fprintf(l->f, "<text class=\"%s\" x=\"", class);
	xml_number(l->f, x, 1);
	fputs("\" y=\"", l->f);
	xml_number(l->f, y, 1);
	fputs("\"", l->f);
	if (size != LANE_LABEL_SIZE) {
		fputs(" font-size=\"", l->f);
		xml_number(l->f, size, 1);
		fputs("\"", l->f);
	}
	fputs(">", l->f);
	if (text[max]) {
		fputs("<title>", l->f);
		xml_text(l->f, text, 0);
		fputs("</title>", l->f);
	}
	xml_text(l->f, text, text[max] ? max : 0);
	fputs("</text>\n", l->f);
}

static void draw_worker_label(const struct lanes *l, const struct lane *at, double x)
{
	const struct plot_worker *w = &l->p->workers[at->index];
	double size = at->height - 2 < LANE_LABEL_SIZE ? at->height - 2 : LANE_LABEL_SIZE;
	double y = at->y + at->height / 2 + size * 0.36;
	char name[32], rank[16];
	int every = 1;

	/* Where lanes are too low for letters, some of them carry the names. */
	if (size < 7) {
		size = 9;
		every = (int)(11 / at->height) + 1;
	}
	if (w->rank % every)
		return;
	snprintf(rank, sizeof(rank), "%d", w->rank);
	draw_label(l, "l", x - LANE_RANK_WIDTH, y, size, worker_name(w, name),
		x - LANE_RANK_WIDTH - 8);
	draw_label(l, "l m", x, y, size, rank, LANE_RANK_WIDTH);
}

void lanes_labels(const struct lanes *l, double x)
{
	for (size_t i = 0; i < l->n; i++) {
		const struct lane *at = &l->items[i];
		const char *host = NULL;
		double y = at->y + at->height / 2 + 4;
		char more[48];

		switch (at->kind) {
		case LANE_GROUP:
			draw_label(l, "l b", x, y, LANE_LABEL_SIZE, "group", x);
			break;
		case LANE_EVENTS:
			draw_label(l, "l m", x, y, LANE_LABEL_SIZE, "events", x);
			break;
		case LANE_HOST:
			draw_label(
				l, "l", x, y, LANE_LABEL_SIZE, l->p->hosts[at->index].name, x - 8);
			break;
		case LANE_TITLE:
			host = l->p->n_sources > 1 ? l->p->sources[at->index].host : NULL;
			draw_label(l, host ? "l b" : "l m", x - LANE_RANK_WIDTH, y + 2, 10,
				host ? host : "worker", x - LANE_RANK_WIDTH - 8);
			draw_label(l, "l m", x, y + 2, 10, "rank", LANE_RANK_WIDTH);
			break;
		case LANE_WORKER:
			draw_worker_label(l, at, x);
			break;
		case LANE_MORE:
			snprintf(more, sizeof(more), "and %zu more", l->left_out);
			draw_label(l, "l m", x, y, LANE_LABEL_SIZE, more, x);
			break;
		}
	}
}

/* --- bars --- */

static const char *state_class(const char *state)
{
	if (!strcmp(state, "running"))
		return "r";
	if (!strcmp(state, "starting"))
		return "q";
	return strcmp(state, "stopping") != 0 ? "w" : "z";
}

/* A bar between two times, at least one pixel wide (less where bars are thinner). */
static void draw_bar(
	const struct lanes *l, const char *class, int64_t from, int64_t to, double height)
{
	double x = scale_x(&l->scale, from), width = scale_x(&l->scale, to) - x;
	double least = l->scale.bar < 1 ? l->scale.bar : 1;

	fprintf(l->f, "<path class=\"%s\" d=\"M", class);
	xml_number(l->f, x, l->places);
	fputs(" 0h", l->f);
	xml_number(l->f, width > least ? width : least, l->places);
	fputs("v", l->f);
	xml_number(l->f, height, 1);
	fputs("H", l->f);
	xml_number(l->f, x, l->places);
	fputs("\"/>", l->f);
}

/* The line at the end of a bar. Its width is not stretched. */
static void draw_cap(const struct lanes *l, const char *class, int64_t at, double height)
{
	fprintf(l->f, "<path class=\"c %s\" d=\"M", class);
	xml_number(l->f, scale_x(&l->scale, at), l->places);
	fputs(" 0v", l->f);
	xml_number(l->f, height, 1);
	fputs("\"/>", l->f);
}

static void title_begin(const struct lanes *l)
{
	fputs("<g><title>", l->f);
}

static void title_text(const struct lanes *l, const char *text)
{
	xml_text(l->f, text, LANE_TEXT_MAX);
}

static void draw_start(const struct lanes *l, const struct plot_worker *w,
	const struct plot_start *s, double height)
{
	char name[32], took[TIME_TEXT_MAX];

	title_begin(l);
	if (s->text) {
		title_text(l, s->text);
	} else {
		title_text(l, worker_name(w, name));
		fprintf(l->f, " runs, since %s", time_text_since(s->to, s->from, took));
	}
	fprintf(l->f, ", attempt %d</title>", s->attempt);
	if (s->running > s->from)
		draw_bar(l, "q", s->from, s->running, height);
	if (s->stopping > s->running)
		draw_bar(l, s->end == PLOT_RUNS ? "r o" : "r", s->running, s->stopping, height);
	if (s->to > s->stopping || s->to == s->from)
		draw_bar(l, "z", s->stopping, s->to, height);
	if (s->end == PLOT_SUCCEEDED || s->end == PLOT_FAILED || s->end == PLOT_LOST)
		draw_cap(l, s->end == PLOT_SUCCEEDED ? "g" : "f", s->to, height);
	fputs("</g>", l->f);
}

static void draw_starts(
	const struct lanes *l, const struct plot_worker *w, size_t i, size_t end, double height)
{
	const struct plot_start *first = &w->starts[i], *last = &w->starts[end - 1];
	char name[32], took[TIME_TEXT_MAX];
	size_t failed = 0;

	for (size_t k = i; k < end; k++)
		failed += w->starts[k].end == PLOT_FAILED || w->starts[k].end == PLOT_LOST;
	title_begin(l);
	title_text(l, worker_name(w, name));
	fprintf(l->f, ": %zu starts in %s, attempts %d to %d, %zu failed</title>", end - i,
		time_text_since(last->to, first->from, took), first->attempt, last->attempt,
		failed);
	draw_bar(l, failed ? "y" : "x", first->from, last->to, height);
	fputs("</g>", l->f);
}

/* Thinner bars over those of the starts. Where several waits are drawn as one, the bar is as pale
 * as the share of its time that the worker waited is small. */
static void draw_waits(const struct lanes *l, const struct plot_worker *w, double height)
{
	char name[32], took[TIME_TEXT_MAX], span[TIME_TEXT_MAX];

	for (size_t i = 0, end; i < w->n_waits; i = end) {
		const struct plot_wait *first = &w->waits[i];
		int64_t waited = 0, to = first->from;

		end = merge_waits(&l->scale, w, i);
		for (size_t k = i; k < end; k++) { /* threads wait at the same time */
			int64_t from = w->waits[k].from > to ? w->waits[k].from : to;

			if (w->waits[k].to > from)
				waited += w->waits[k].to - from;
			to = w->waits[k].to > to ? w->waits[k].to : to;
		}
		fputs("<g", l->f);
		if (end > i + 1)
			fprintf(l->f, " opacity=\"%.2f\"",
				0.1 + 0.9 * (double)waited / (double)(to - first->from));
		fputs("><title>", l->f);
		title_text(l, worker_name(w, name));
		fprintf(l->f, " waited %s", time_text_since(waited, 0, took));
		if (end > i + 1) {
			fprintf(l->f, " of %s at %zu barriers",
				time_text_since(to, first->from, span), end - i);
		} else {
			fputs(": ", l->f);
			title_text(l, l->p->barriers[first->barrier].text);
		}
		fputs("</title>", l->f);
		draw_bar(l, "i", first->from, to, height);
		fputs("</g>", l->f);
	}
}

/* Lines under marks that stand for several: as long as the time in which these were. */
static void draw_mark_lengths(const struct lanes *l, const struct plot_marks *marks)
{
	for (int kind = 0; kind < PLOT_N_KINDS; kind++) {
		struct merged m;
		size_t i = 0;
		char class[8];

		snprintf(class, sizeof(class), "u g%s", plot_kind_letter(kind));
		while (merge_marks(&l->scale, marks, kind, &i, &m))
			if (m.n > 1)
				draw_bar(l, class, m.first->at, m.last->at, 2);
	}
}

static void draw_worker(const struct lanes *l, const struct lane *at)
{
	const struct plot_worker *w = &l->p->workers[at->index];
	double gap = at->height >= 20 ? 6 : at->height >= 14 ? 3 : at->height >= 9 ? 2 : 1;
	double height = at->height - gap;

	fputs("<g transform=\"translate(0 ", l->f);
	xml_number(l->f, at->y + gap / 2, 1);
	fputs(")\">", l->f);
	for (size_t i = 0, end; i < w->n; i = end) {
		end = merge_starts(&l->scale, w, i);
		if (end == i + 1)
			draw_start(l, w, &w->starts[i], height);
		else
			draw_starts(l, w, i, end, height);
	}
	if (w->n_waits) {
		fputs("<g transform=\"translate(0 ", l->f);
		xml_number(l->f, height / 3, 1);
		fputs(")\">", l->f);
		draw_waits(l, w, height / 3);
		fputs("</g>", l->f);
	}
	draw_mark_lengths(l, &w->marks);
	fputs("</g>\n", l->f);
}

static void draw_group(const struct lanes *l, const struct lane *at)
{
	const struct plot *p = l->p;
	char took[TIME_TEXT_MAX];

	for (size_t i = 0, end; i < p->n_phases; i = end) {
		const struct plot_phase *first = &p->phases[i], *last;

		end = merge_phases(&l->scale, p, i);
		last = &p->phases[end - 1];
		title_begin(l);
		time_text_since(last->to, first->from, took);
		if (end > i + 1)
			fprintf(l->f, "%zu states of the group in %s", end - i, took);
		else
			title_text(l, first->text);
		if (first->attempt >= 0)
			fprintf(l->f, ", attempt %d", first->attempt);
		fprintf(l->f, "%s%s</title>", end > i + 1 ? "" : ", ", end > i + 1 ? "" : took);
		draw_bar(l, end > i + 1 ? "x" : state_class(first->state), first->from, last->to,
			at->height - 4);
		fputs("</g>", l->f);
	}
}

/* Shades all lanes while the group waits, so that the gap between attempts explains itself. */
static void draw_group_waits(const struct lanes *l)
{
	for (size_t i = 0; i < l->p->n_phases; i++) {
		const struct plot_phase *phase = &l->p->phases[i];

		if (*state_class(phase->state) == 'w' &&
			scale_x(&l->scale, phase->to) - scale_x(&l->scale, phase->from) >=
				l->scale.bar * 2)
			draw_bar(l, "v", phase->from, phase->to, l->height);
	}
	fputs("\n", l->f);
}

static void draw_host(const struct lanes *l, const struct lane *at)
{
	const struct plot_host *h = &l->p->hosts[at->index];
	char took[TIME_TEXT_MAX];

	fputs("<g transform=\"translate(0 ", l->f);
	xml_number(l->f, at->y + 5, 1);
	fputs(")\">", l->f);
	for (size_t i = 0; i < h->n; i++) {
		title_begin(l);
		title_text(l, h->name);
		fprintf(l->f, " was in the group for %s</title>",
			time_text_since(h->stays[i].to, h->stays[i].from, took));
		draw_bar(l, "e", h->stays[i].from, h->stays[i].to, at->height - 10);
		fputs("</g>", l->f);
	}
	fputs("</g>\n", l->f);
}

void lanes_bars(const struct lanes *l)
{
	draw_group_waits(l);
	for (size_t i = 0; i < l->n; i++) {
		const struct lane *at = &l->items[i];

		if (at->kind == LANE_GROUP)
			draw_group(l, at);
		else if (at->kind == LANE_HOST)
			draw_host(l, at);
		else if (at->kind == LANE_WORKER)
			draw_worker(l, at);
	}
}

/* --- marks --- */

static void draw_glyph(
	const struct lanes *l, const char *prefix, enum plot_kind kind, int64_t at, double y)
{
	fprintf(l->f, "<use href=\"#%s%s\" x=\"", prefix, plot_kind_letter(kind));
	xml_number(l->f, scale_x(&l->scale, at), l->places);
	if (*prefix) {
		fputs("\"/>", l->f); /* a line over all lanes */
		return;
	}
	fputs("\" y=\"", l->f);
	xml_number(l->f, y, 1);
	fputs("\">", l->f);
}

static void draw_mark(const struct lanes *l, const struct merged *m, double y)
{
	char from[TIME_TEXT_MAX], to[TIME_TEXT_MAX];
	enum plot_kind kind = m->first->kind;

	draw_glyph(l, "", kind, m->first->at, y);
	fprintf(l->f, "<title>%s ", time_text_clock(m->first->at, false, from));
	if (kind == PLOT_ROOT)
		fputs("root cause: ", l->f);
	if (m->n > 1)
		fprintf(l->f, "to %s: %zu, the first: ", time_text_clock(m->last->at, true, to),
			m->n);
	title_text(l, m->first->text);
	fputs("</title></use>\n", l->f);
}

static void draw_lane_marks(
	const struct lanes *l, const struct lane *at, const struct plot_marks *marks)
{
	for (int kind = 0; kind < PLOT_N_KINDS; kind++) {
		struct merged m;
		size_t i = 0;

		while (merge_marks(&l->scale, marks, kind, &i, &m)) {
			if (kind == PLOT_ROOT ||
				(at->kind == LANE_EVENTS &&
					(kind == PLOT_NOTICE || kind == PLOT_STOP)))
				draw_glyph(l, "l", kind, m.first->at, 0);
			draw_mark(l, &m, at->y + at->height / 2);
		}
	}
}

/* "attempt 3" in the group's bar, where there is room for it. The script has it in data-t. */
static void draw_phase_label(
	const struct lanes *l, const struct lane *at, const struct plot_phase *phase)
{
	double x = scale_x(&l->scale, phase->from), width = scale_x(&l->scale, phase->to) - x;
	bool running = !strcmp(phase->state, "running");
	char text[32], brief[16] = "";

	if (*state_class(phase->state) != 'w' && !running)
		return;
	snprintf(text, sizeof(text), "%s", phase->state);
	if (running) {
		snprintf(text, sizeof(text), "attempt %d", phase->attempt);
		snprintf(brief, sizeof(brief), "%d", phase->attempt);
	}
	if (!l->page && width < xml_width(brief, 11) + 6)
		return;
	fprintf(l->f, "<text class=\"%s\" x=\"", running ? "p" : "p w");
	xml_number(l->f, x + width / 2, l->places);
	fputs("\" y=\"", l->f);
	xml_number(l->f, at->y + 13, 1);
	if (l->page) {
		fputs("\" data-w=\"", l->f);
		xml_number(l->f, width, l->places);
		fprintf(l->f, "\" data-t=\"%s", text);
	}
	fprintf(l->f, "\">%s</text>\n", width < xml_width(text, 11) + 8 ? brief : text);
}

void lanes_marks(const struct lanes *l)
{
	for (size_t i = 0; i < l->p->n_phases; i++)
		if (merge_phases(&l->scale, l->p, i) == i + 1)
			draw_phase_label(l, &l->items[0], &l->p->phases[i]);
	for (size_t i = 0; i < l->n; i++) {
		const struct lane *at = &l->items[i];

		if (at->kind == LANE_EVENTS)
			draw_lane_marks(l, at, &l->p->marks);
		else if (at->kind == LANE_HOST)
			draw_lane_marks(l, at, &l->p->hosts[at->index].marks);
		else if (at->kind == LANE_WORKER)
			draw_lane_marks(l, at, &l->p->workers[at->index].marks);
	}
}

bool lanes_have(const struct plot *p, enum plot_kind kind)
{
	bool found = have_mark(&p->marks, kind);

	for (size_t i = 0; !found && i < p->n_workers; i++)
		found = have_mark(&p->workers[i].marks, kind);
	for (size_t i = 0; !found && i < p->n_hosts; i++)
		found = have_mark(&p->hosts[i].marks, kind);
	return found;
}
