/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Colours of the terminal and when they are used. Pure: callers say what the terminal is. */

#include <stdbool.h>

enum color {
	COLOR_NONE,
	COLOR_BOLD,
	COLOR_DIM,
	COLOR_UNDERLINE,
	COLOR_RED,
	COLOR_GREEN,
	COLOR_YELLOW,
	COLOR_CYAN,
};

enum color_mode { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

#define COLOR_OFF "\033[0m"

/* The sequence that begins a colour; "" for COLOR_NONE. */
const char *color_code(enum color c);

/* Reads auto, always or never (also yes and no). Returns 0 or -EINVAL. */
int color_mode_parse(const char *text, enum color_mode *ret);

/* no_color and term are the values of NO_COLOR and TERM, or NULL. */
bool color_wanted(enum color_mode mode, bool is_tty, const char *no_color, const char *term);

/* A steady colour for each rank, so that neighbours differ. */
const char *color_rank(int rank);

/* The colour of a job's or a worker's state. */
enum color color_state(const char *state);
