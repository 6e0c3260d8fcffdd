/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which starts, phases and marks are drawn as one, because they are too near to each other to be
 * told apart, and how far that has to go for the picture to stay small. Pure.
 */

#include "client/plot/plot.h"

/* Where a time is drawn. */
struct scale {
	int64_t from, to; /* of the axis */
	double width;	  /* of it */
	double bar;	  /* starts and phases that are shorter are drawn with their neighbours */
	double wait;	  /* so are waits at barriers within this length */
	double mark;	  /* so are marks of one kind within this length */
	double major;	  /* the same of kinds from PLOT_BEAT on, which are few and matter */
};

double scale_x(const struct scale *s, int64_t at);

/* The most that a picture may have, all workers together. */
struct merge_limits {
	size_t bars, waits, marks;
};

/* Doubles s->bar, s->wait, s->mark and, as the last one, s->major until p keeps the limits. */
void merge_fit(struct scale *s, const struct plot *p, const struct merge_limits *limits);

/* starts[i] and those after it that are drawn as one: returns the index behind them. */
size_t merge_starts(const struct scale *s, const struct plot_worker *w, size_t i);

/* waits[i] and those after it that are drawn as one, all within the length s->wait; likewise. */
size_t merge_waits(const struct scale *s, const struct plot_worker *w, size_t i);

/* phases[i] of the group and those after it that are drawn as one; likewise. */
size_t merge_phases(const struct scale *s, const struct plot *p, size_t i);

/* A group of marks of one kind. */
struct merged {
	const struct plot_mark *first, *last;
	size_t n;
};

/* The next group of marks of this kind, from *at on, which is moved behind it. False: no more. */
bool merge_marks(const struct scale *s, const struct plot_marks *marks, enum plot_kind kind,
	size_t *at, struct merged *ret);
