/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/head.h"
#include "agent/policy/failure_list.h"
#include "common/base/log.h"
#include "common/text/json.h"
#include "common/varlink/manager_error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Operators' calls that the head answers from the answers of all hosts: Errors and Dump. */

enum {
	GROUP_ERRORS_MS = 500,	   /* elasticd waits a second, then it answers from files */
	GROUP_DUMP_MS = 60000,	   /* as on one host */
	GROUP_DUMP_MORE_MS = 2000, /* for the way to a host and back */
	GROUP_DIRS_MAX = 4096,	   /* directories of one host */
};

struct group_call {
	struct head *head;
	struct varlink_call *call;
	struct head_call_all *ask;
	int64_t attempt; /* of Errors; -1: the newest with failures */
};

static void group_call_gone(void *arg)
{
	struct group_call *g = arg;

	head_call_all_free(g->ask);
	free(g);
}

static int group_call_new(struct head *h, struct varlink_call *call, const char *method,
	const json_t *p, uint64_t timeout_ms, head_answers_fn fn)
{
	struct group_call *g = calloc(1, sizeof(*g));
	_cleanup_json_ json_t *copy = json_copy((json_t *)p);
	int r;

	if (!g || !copy) {
		free(g);
		return -ENOMEM;
	}
	*g = (struct group_call){ .head = h, .call = call };
	g->attempt = json_get_int(p, "attempt", -1);
	json_put_string(copy, "job", "");
	r = head_call_all(h, method, copy, timeout_ms, fn, g, &g->ask);
	if (r < 0)
		free(g);
	else
		varlink_call_on_gone(call, group_call_gone, g);
	return r;
}

/* Names hosts without an answer. */
static void group_note_missing(json_t *answer, const struct head_answer *answers, size_t n)
{
	char names[HEAD_NAMES] = "", text[HEAD_NAMES + 20];

	for (size_t i = 0; i < n; i++)
		if (!answers[i].answered)
			head_list_name(names, answers[i].host);
	snprintf(text, sizeof(text), "no answer of host %s", names);
	if (*names)
		json_put_note(answer, text);
}

bool head_is_of_own_workers(const struct head_host *x, const json_t *list)
{
	const struct head *h = x->head;
	const struct round_host *host = round_host(h->round, x->number);
	const json_t *one;
	size_t i;

	json_array_foreach (list, i, one) {
		int64_t rank = json_get_int(one, "rank", -1);

		if (!json_is_object(one) || rank < 0)
			return false;
		if (json_get_int(one, "attempt", 0) != h->attempt - 1 || !host ||
			host->round != round_number(h->round))
			continue;
		if (rank < host->first_rank || rank >= host->first_rank + host->workers)
			return false;
	}
	return true;
}

/* --- failures --- */

static bool errors_has(const json_t *list, const json_t *failure)
{
	const json_t *f;
	size_t i;

	json_array_foreach (list, i, f)
		if (json_get_int(f, "rank", -1) == json_get_int(failure, "rank", -2) &&
			json_get_int(f, "attempt", -1) == json_get_int(failure, "attempt", -1) &&
			json_get_int(f, "pid", 0) == json_get_int(failure, "pid", 0))
			return true;
	return false;
}

/* The failures of that attempt, or of the newest one that has any (-1). */
static json_t *errors_of_newest(const json_t *all, int64_t attempt)
{
	json_t *list = json_array(), *f;
	size_t i;

	json_array_foreach (all, i, f)
		if (attempt < 0 || json_get_int(f, "attempt", 0) > attempt)
			attempt = json_get_int(f, "attempt", 0);
	json_array_foreach (all, i, f)
		if (json_get_int(f, "attempt", 0) == attempt)
			json_add(list, json_incref(f));
	return list;
}

/* Failures that the head knows count before the hosts' own: their times are by the head's clock. */
static json_t *errors_merge(const struct group_call *g, const struct head_answer *answers, size_t n)
{
	const struct head *h = g->head;
	_cleanup_json_ json_t *all = json_array();
	json_t *failure, *list;
	size_t k;

	if (g->attempt < 0 || g->attempt == h->attempt - 1)
		json_array_extend(all, head_failures(h));
	for (size_t i = 0; i < n; i++) {
		const struct head_host *x = head_member(h, answers[i].number);
		const json_t *theirs = json_get_array(answers[i].parameters, "failures");

		if (!x || answers[i].error || !head_is_of_own_workers(x, theirs))
			continue;
		json_array_foreach (theirs, k, failure) {
			json_t *copy;

			if (errors_has(all, failure))
				continue;
			copy = json_copy(failure);
			json_put_int(copy, "time_us",
				json_get_int(copy, "time_us", 0) +
					(x->beat.clock_known ? x->beat.offset_us : 0));
			json_add(all, copy);
		}
	}
	list = errors_of_newest(all, g->attempt);
	failure_list_order(list);
	failure_list_put_first(list, head_last_cause(h));
	return list;
}

static void errors_answered(void *arg, const struct head_answer *answers, size_t n)
{
	struct group_call *g = arg;
	struct varlink_call *call = g->call;
	json_t *answer = json_object();

	json_put(answer, "failures", errors_merge(g, answers, n));
	group_note_missing(answer, answers, n);
	free(g);
	(void)varlink_reply(call, answer);
}

int head_errors(struct head *h, struct varlink_call *call, const json_t *p)
{
	int64_t attempt = json_get_int(p, "attempt", -1);

	if (attempt >= 0 && attempt >= h->attempt)
		return varlink_error(call, "NotFound", manager_no_attempt(attempt));
	return group_call_new(h, call, "Errors", p, GROUP_ERRORS_MS, errors_answered);
}

/* --- dumps --- */

/* Adds "HOST:DIRECTORY" for each. */
static void dump_add_dirs(const struct head_answer *answer, json_t *dirs)
{
	const json_t *theirs = json_get_array(answer->parameters, "dirs"), *one;
	size_t i;

	json_array_foreach (theirs, i, one) {
		const char *dir = json_string_value(one);

		if (!dir || i >= GROUP_DIRS_MAX)
			break;
		json_add(dirs, json_sprintf("%s:%s", answer->host, dir));
	}
}

/* A host without such workers answers with an error. */
static void dump_answered(void *arg, const struct head_answer *answers, size_t n)
{
	struct group_call *g = arg;
	struct varlink_call *call = g->call;
	_cleanup_json_ json_t *answer = json_object();
	json_t *dirs = json_array();
	const struct head_answer *failed = NULL;

	for (size_t i = 0; i < n; i++) {
		if (answers[i].answered && answers[i].error)
			failed = &answers[i];
		else
			dump_add_dirs(&answers[i], dirs);
	}
	json_put(answer, "dirs", dirs);
	group_note_missing(answer, answers, n);
	free(g);
	if (!json_array_size(dirs) && !json_object_get(answer, "note") && failed)
		(void)varlink_error(call, failed->error, json_incref(failed->parameters));
	else
		(void)varlink_reply(call, json_incref(answer));
}

int head_dump(struct head *h, struct varlink_call *call, const json_t *p)
{
	uint64_t timeout = (uint64_t)json_get_int(p, "timeout_ms", GROUP_DUMP_MS);

	return group_call_new(h, call, "Dump", p, timeout + GROUP_DUMP_MORE_MS, dump_answered);
}
