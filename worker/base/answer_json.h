/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the JSON of answers in place, member by member, into a struct: answers come in great
 * numbers, and a tree of each would cost more than all else. The text must have no white space
 * between its tokens, as the agent writes it; unknown members are skipped. Nothing in the text
 * changes until answer_in_place() is called. Pure.
 */

#include "common/base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>

/* A string between its quotes; at is NULL where there is none. */
struct answer_text {
	char *at;
	size_t len;
	bool escaped;
};

enum answer_kind {
	ANSWER_INT,  /* int64_t */
	ANSWER_BOOL, /* bool */
	ANSWER_TEXT, /* struct answer_text; null reads as no text */
	ANSWER_RAW   /* struct answer_text: any value, as it is written */
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
#define ANSWER_N(members) (sizeof(members) / sizeof((members)[0]))

/* The object that begins at text, which has a NUL somewhere behind it. Returns what follows the
 * object, or NULL where it cannot be read. Fields of ret whose members are missing stay. */
char *answer_object(char *text, const struct answer_member *members, size_t n, void *ret);

/* The elements of an array, one after the other: *at is its '[' at first. False at its end. */
bool answer_element(char **at, struct answer_text *ret);

/* Which of n names the text is; -1: none of them. */
int answer_name(const struct answer_text *t, const char *const *names, int n);
/* An owned copy with a NUL behind it, "" where there is no text. ret_len may be NULL. 0 or
 * -ENOMEM. */
_must_check_ int answer_copy(const struct answer_text *t, char **ret, size_t *ret_len);
/* The text itself, with a NUL in place of its last quote: what surrounds it cannot be read again.
 */
const char *answer_in_place(struct answer_text *t);
/* The bytes that a pair of members, text or base64, stands for: owned, with a NUL behind them, or
 * NULL where both are missing. 0, -ENOMEM or -EBADMSG. */
_must_check_ int answer_bytes(const struct answer_text *text, const struct answer_text *base64,
	void **ret, size_t *ret_len);

/* How the parameters of an answer are read. */
struct answer_reader {
	const struct answer_member *members;
	size_t n;
	void *to;
	size_t size; /* of what `to` points at; zeroed before each reading */
	/* Copies what it needs before the text goes; may be NULL. 0, -ENOMEM or -EBADMSG. */
	int (*keep)(void *to);
};
/* Reads a whole answer. 1; 0 where it cannot, for example an error; -ENOMEM. */
_must_check_ int answer_read(const struct answer_reader *r, char *text, size_t len);
/* Reads parameters that were parsed for another reason. *ret_text, owned, is what `to` refers to
 * from then on. 0, -ENOMEM or -EBADMSG. */
_must_check_ int answer_read_parsed(
	const struct answer_reader *r, const json_t *parameters, char **ret_text);
/* Of an answer in which nothing is of interest. */
extern const struct answer_reader answer_nothing;
