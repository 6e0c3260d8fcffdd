/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dumps workers that hang, on this host and, in a group, on the others; ends the failed ones once
 * all of them are dumped. watchdog_dump() also serves the operator's Dump call.
 */
#include "agent/watchdog/private.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <errno.h>
#include <string.h>

enum { DUMP_TAIL_LINES = 100 }; /* of each stream */

/* The ends of both streams, an array of strings; owned. */
static json_t *dump_tail(struct supervisor *sv, const struct worker *w)
{
	json_t *all = json_array();

	for (int std = 0; std < 2 && all; std++) {
		_cleanup_json_ json_t *tail =
			logs_tail(supervisor_logs(sv), w->local_rank, std, DUMP_TAIL_LINES);

		if (json_array_size(tail))
			json_array_append_new(all, json_string(std ? "== stderr" : "== stdout"));
		json_array_extend(all, tail);
	}
	return all;
}

struct dump_list {
	struct dump_worker *workers;
	size_t n;
};

static void dump_list_fini(struct dump_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		json_decref(l->workers[i].tail);
	free(l->workers);
}

static void dump_list_add(
	struct supervisor *sv, struct dump_list *l, const struct worker *w, const char *why)
{
	struct dump_worker *d = &l->workers[l->n++];

	*d = (struct dump_worker){ .pid = w->pid,
		.rank = w->rank,
		.dir = logs_worker_dir(supervisor_logs(sv), w->local_rank),
		.why = why,
		.tail = dump_tail(sv, w) };
	snprintf(d->name, sizeof(d->name), "%s", worker_name(w));
}

/* One dump, for the watchdog or for an operator. */
struct watchdog_dump {
	struct supervisor *sv;
	dump_done_fn fn;
	void *arg;
};

static void watchdog_dumped(void *arg, char *const *dirs, size_t n)
{
	_cleanup_free_ struct watchdog_dump *d = arg;

	if (watchdog_of(d->sv)) /* false: the agent ends */
		watchdog_resume(watchdog_of(d->sv));
	d->fn(d->arg, dirs, n);
}

int watchdog_dump(struct supervisor *sv, const int *places, size_t n, const char *why,
	uint64_t timeout_ms, dump_done_fn fn, void *arg, struct error *err)
{
	_cleanup_(dump_list_fini) struct dump_list l = {
		.workers = calloc(n + 1, sizeof(*l.workers)),
	};
	_cleanup_free_ struct watchdog_dump *d = calloc(1, sizeof(*d));
	int r;

	if (!d || !l.workers)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		const struct worker *w = supervisor_worker(sv, places[i]);

		if (worker_alive(w))
			dump_list_add(sv, &l, w, why);
	}
	if (!l.n)
		return error_set(err, -ENOENT, "none of these workers runs");
	*d = (struct watchdog_dump){ .sv = sv, .fn = fn, .arg = arg };
	r = dumps_begin(
		watchdog_of(sv)->dumps, l.workers, l.n, timeout_ms, watchdog_dumped, d, err);
	if (r < 0)
		return r;
	TAKE_PTR(d);
	watchdog_pause(watchdog_of(sv));
	return 0;
}

static struct worker_watch *watch_failing(struct watchdog *wd, const struct worker *w)
{
	struct worker_watch *watch = watchdog_find(wd, w);

	return watch && watch->failing && watch->token == w->token ? watch : NULL;
}

/* Takes the failed worker that was found first; NULL: none. */
static struct worker *watchdog_next_failing(struct watchdog *wd)
{
	struct supervisor *sv = wd->sv;
	struct worker_watch *first = NULL;
	struct worker *ret = NULL;

	for (int i = 0; i < supervisor_n_workers(sv); i++) {
		struct worker_watch *watch = watch_failing(wd, supervisor_worker(sv, i));

		if (!watch || (first && first->found < watch->found))
			continue;
		first = watch;
		ret = supervisor_worker(sv, i);
	}
	if (first)
		first->failing = false;
	return ret;
}

/* Ends the failed workers, once all dumps are over. */
static void watchdog_act(struct watchdog *wd)
{
	struct supervisor *sv = wd->sv;
	struct worker *w;

	if (wd->dumping || wd->hosts_dumping)
		return;
	/* The end of one worker may change the others, and the core's array of workers. */
	while ((w = watchdog_next_failing(wd))) {
		if (supervisor_spec(sv)->heartbeat.on_failure == SPEC_HEARTBEAT_REPORT)
			continue;
		supervisor_worker_failing(sv, w, watchdog_find(wd, w)->why);
		supervisor_end_failing(sv, w);
	}
}

static void watchdog_group_dumped(void *arg, char *const *dirs, size_t n)
{
	struct watchdog *wd = arg;
	struct supervisor *sv = wd->sv;

	if (!watchdog_of(sv)) /* the agent ends */
		return;
	for (size_t i = 0; i < n; i++)
		if (dirs[i]) {
			supervisor_report(sv, LOG_NOTICE, "dumped", -1, NULL,
				"dumped the hanging worker into %s%s", dirs[i],
				n > 1 ? ", others beside it" : "");
			break;
		}
	wd->dumping = false;
	watchdog_act(wd);
}

void watchdog_hosts_dumped(struct supervisor *sv)
{
	struct watchdog *wd = watchdog_of(sv);

	if (!wd || !wd->hosts_dumping)
		return;
	wd->hosts_dumping = false;
	watchdog_act(wd);
}

/* The places of the workers to dump: first the failed ones, then the others that run. */
static size_t watchdog_places(struct watchdog *wd, int *places)
{
	struct supervisor *sv = wd->sv;
	size_t n = 0;

	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < supervisor_n_workers(sv) && n < WATCHDOG_DUMP_WORKERS; i++) {
			const struct worker *w = supervisor_worker(sv, i);

			if (worker_alive(w) && (watch_failing(wd, w) == NULL) == (pass == 1))
				places[n++] = i;
		}
	return n;
}

/* A dump for another host. */
struct host_dump {
	struct supervisor *sv;
	int64_t number;
};

static void host_dumped(void *arg, char *const *dirs, size_t n)
{
	_cleanup_free_ struct host_dump *d = arg;

	FEATURES_CALL(d->sv, hosts_dump_over, d->sv, d->number);
}

void watchdog_hosts_dump(struct supervisor *sv, int64_t number, const char *why)
{
	struct watchdog *wd = watchdog_of(sv);
	struct host_dump *d = calloc(1, sizeof(*d));
	int places[WATCHDOG_DUMP_WORKERS];
	struct error err = { 0 };
	size_t n = wd ? watchdog_places(wd, places) : 0;

	if (d)
		*d = (struct host_dump){ .sv = sv, .number = number };
	if (d && n &&
		watchdog_dump(sv, places, n, why,
			(uint64_t)supervisor_spec(sv)->heartbeat.dump_timeout_ms, host_dumped, d,
			&err) == 0) {
		log_notice("the workers of this host are being dumped: %s", why);
		return;
	}
	free(d);
	FEATURES_CALL(sv, hosts_dump_over, sv, number);
}

void watchdog_dump_group(struct watchdog *wd)
{
	struct supervisor *sv = wd->sv;
	int64_t limit = supervisor_spec(sv)->heartbeat.dump_timeout_ms;
	struct error err = { 0 };
	uint64_t first = UINT64_MAX;
	int places[WATCHDOG_DUMP_WORKERS];
	char why[300] = "";
	size_t n;

	for (int i = 0; i < supervisor_n_workers(sv); i++) {
		struct worker_watch *watch = watch_failing(wd, supervisor_worker(sv, i));

		if (!watch || watch->found > first)
			continue;
		first = watch->found;
		snprintf(why, sizeof(why), "%s: %s", worker_name(supervisor_worker(sv, i)),
			watch->why);
	}
	n = watchdog_places(wd, places);
	wd->hosts_dumping = limit > 0 && FEATURES_ANY(sv, dumps_hosts, sv, why);
	if (limit > 0 && watchdog_dump(sv, places, n, why, (uint64_t)limit, watchdog_group_dumped,
				 wd, &err) == 0)
		wd->dumping = true;
	else if (limit > 0)
		log_warning("cannot dump the hanging workers: %s", err.text);
	watchdog_act(wd);
}
