/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads JSON of answers in place, member by member, into a struct: for answers of which there are
 * many. It takes what is written without white space, skips members that it does not know, and
 * changes nothing until a text is asked for. What it does not take is left to a parser of all.
 */

#include "common/base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>

/* A string between its quotes. at NULL: not there. */
struct answer_text {
	char *at;
	size_t len;
	bool escaped;
};

enum answer_kind {
	ANSWER_INT,  /* int64_t */
	ANSWER_BOOL, /* bool */
	ANSWER_TEXT, /* struct answer_text; null is as not there */
	ANSWER_RAW   /* struct answer_text: any value as it is written */
};

struct answer_member {
	const char *name;
	size_t name_len;
	enum answer_kind kind;
	size_t offset;
};
#define ANSWER_MEMBER(of, kind_, name_, field)                               \
	{                                                                    \
		.name = name_, .name_len = sizeof(name_) - 1, .kind = kind_, \
		.offset = offsetof(of, field)                                \
	}

/* The object that begins at text, which has a NUL somewhere behind it: returns what follows it, or
 * NULL. ret has what its members said; what was not there is as before. */
char *answer_object(char *text, const struct answer_member *members, size_t n, void *ret);

/* The elements of an array, one after the other: *at is its '[' at first. False at its end. */
bool answer_element(char **at, struct answer_text *ret);

/* An owned copy, a NUL behind it; "" where it is not there. 0 or -ENOMEM. ret_len may be NULL. */
_must_check_ int answer_copy(const struct answer_text *t, char **ret, size_t *ret_len);
/* The text itself, a NUL in place of its last quote: what it is in can not be read again. */
const char *answer_in_place(struct answer_text *t);
