/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files behind queue_remote share. */

#include "worker/base/answer_json.h"
#include "worker/base/connection.h"
#include "worker/base/queue_handle.h"

#define QUEUE_METHOD(name) "io.elasticd.Queue." name

/* Reads the parameters of an answer into `to`, size bytes that are zero where nothing came, and has
 * keep copy what it wants before the text goes: 0, -ENOMEM or -EBADMSG. */
struct taking {
	const struct answer_member *members;
	size_t n;
	void *to;
	size_t size;
	int (*keep)(void *to); /* or NULL */
};
/* As struct taker has it; arg is a struct taking. */
int taking_take(char *text, size_t len, void *arg);
/* The same for an answer that was not taken as it came: *ret_text is what `to` refers to from then
 * on, owned. 0, -ENOMEM, -EBADMSG. */
_must_check_ int taking_again(const json_t *parameters, struct taking *t, char **ret_text);

/* What a coordinator asks, and how. */
struct asking {
	const char *method;
	struct args *a;	   /* its parameters, taken */
	const char *limit; /* the name of its time limit; NULL: it does not wait */
	int timeout_ms;	   /* that limit; negative: none */
	struct taking *t;  /* NULL: ret has it */
	json_t **ret;	   /* or NULL */
	const struct conn *beside;
	bool repeats; /* made twice, it is as made once */
	bool once;    /* so it is with a number */
	bool endless; /* without a limit it waits for others, however long that is */
};
/* A status. */
int remote_asking(struct elasticd *h, const struct asking *k);

/* Bytes and their format, as value and base64 have them: owned, with a NUL behind; NULL where there
 * are none. 0, -ENOMEM, -EBADMSG. */
_must_check_ int bytes_take(const struct answer_text *text, const struct answer_text *base64,
	void **ret, size_t *ret_len);

struct outcomes {
	struct elasticd_outcome *list;
	size_t n, room;
};
/* `to` of an answer that has `outcomes`, or `outcome`. */
struct taken_outcomes {
	struct answer_text one, many;
	struct outcomes *into;
};
extern const struct answer_member outcomes_members[2];
/* Appends them. */
int outcomes_keep(void *to);

struct taken_answers {
	struct answer_text many;
	struct elasticd_answer *list;
	size_t n, room;
};
extern const struct answer_member answers_members[1];
int answers_keep(void *to);

struct taken_item {
	struct answer_text kind, name, payload, base64, format, resources;
	int64_t lease, task, limit_ms, index, incarnation, attempt;
};
extern const struct answer_member item_members[12];
/* `to` of an answer to Work, Finish and Fail: item. */
struct place;
struct taken_work {
	struct answer_text item;
	struct place *place;
	bool came; /* there is one */
};

/* --- work_calls.c, as struct queue_side has them */

int remote_work_open(struct elasticd_work *w);
void remote_work_close(struct elasticd_work *w, bool ours);
void remote_work_renew(struct elasticd_work *w);
int remote_work_next(struct elasticd_work *w, int timeout_ms, bool *ret_closed);
int remote_work_answer(struct elasticd_work *w, const struct verdict *v, bool next, int timeout_ms,
	bool *ret_closed);
bool remote_work_under_way(const struct elasticd_work *w);
bool remote_work_cancelled(struct elasticd_work *w);
