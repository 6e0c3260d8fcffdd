/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The lanes of a picture: where each is, and the bars and marks in them. */

#include "client/plot/merge.h"

#include <stdio.h>

enum lane_kind { LANE_GROUP, LANE_EVENTS, LANE_HOST, LANE_TITLE, LANE_WORKER, LANE_MORE };

struct lane {
	enum lane_kind kind;
	size_t index; /* of the worker, the host, or the source */
	double y, height;
};

struct lanes {
	const struct plot *p;
	FILE *f;
	struct scale scale;
	struct lane *items;
	size_t n;
	size_t left_out; /* workers */
	double height;	 /* of all */
	double row;	 /* of a worker */
	double glyph;	 /* how large marks are, beside those of 12 pixels */
	int places;	 /* digits behind the point of horizontal numbers */
	bool page;	 /* the script shows and hides labels of phases */
};

/* Workers beyond so many are only counted, except for the one of the root cause. */
enum { LANES_WORKERS = 8192 };

/* Lays the lanes out; p, f, scale, places and page are set. Returns 0 or -ENOMEM. */
_must_check_ int lanes_init(struct lanes *l);
void lanes_fini(struct lanes *l);

/* The widest name of a lane, about. */
double lanes_labels_width(const struct plot *p);

/* Names beside the lanes, which end at x. */
void lanes_labels(const struct lanes *l, double x);
/* The bars. Their widths are lengths of time, so the page may stretch them. */
void lanes_bars(const struct lanes *l);
/* The marks. Their x are points in time, so the page moves them and keeps their shape. */
void lanes_marks(const struct lanes *l);

/* Whether a mark of that kind is in the plot. */
bool lanes_have(const struct plot *p, enum plot_kind kind);
