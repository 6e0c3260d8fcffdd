/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Draws a plot as SVG: a title, the root cause, two time axes, a lane for the group, one for each
 * host and each worker, and a legend. Colours and fonts are in plot.css. Pure but for the stream.
 */

#include "client/plot/plot.h"

#include <stdio.h>

/* A picture that is complete in itself, for any viewer. Returns 0 or -ENOMEM. */
_must_check_ int svg_write(const struct plot *p, FILE *f);

/* The same as a page of HTML, in more detail, whose script (plot.js) zooms. */
_must_check_ int svg_write_page(const struct plot *p, FILE *f);

/* Texts that the build makes from plot.css and plot.js. */
extern const char plot_style_text[], plot_script_text[];
