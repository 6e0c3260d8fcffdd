/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The kinds of marks of a picture, and which event makes which. Pure. */

/*
 * X(name, letter, text): the letter names the glyph in the picture, the text is for the legend.
 * Kinds that matter more come later, and are drawn over the others.
 */
#define PLOT_KINDS(X)                          \
	X(NOTE, "n", "other event")            \
	X(JOINED, "j", "host joined")          \
	X(LEFT_HOST, "h", "host left")         \
	X(SAVED, "s", "saved")                 \
	X(LEFT, "l", "left on notice")         \
	X(AGREED, "a", "save agreed")          \
	X(NOTICE, "p", "notice of preemption") \
	X(STOP, "o", "stop or signal")         \
	X(BEAT, "b", "no beat or progress")    \
	X(KILLED, "k", "SIGKILL")              \
	X(FAILURE, "f", "failure")             \
	X(ROOT, "r", "root cause")

enum plot_kind {
#define X(name, letter, text) PLOT_##name,
	PLOT_KINDS(X)
#undef X
		PLOT_N_KINDS,
	PLOT_NONE = PLOT_N_KINDS, /* the event is no mark: bars and phases show it */
};

const char *plot_kind_letter(enum plot_kind kind);
const char *plot_kind_text(enum plot_kind kind);

/* The kind of mark for an event: NOTE for names that are not known. */
enum plot_kind plot_kind_of(const char *event);
