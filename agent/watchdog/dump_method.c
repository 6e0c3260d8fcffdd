/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/watchdog/dump_method.h"

#include "agent/watchdog/watchdog.h"

#include "common/text/json.h"
#include "common/varlink/manager_error.h"

#include <errno.h>
#include <stdlib.h>

enum { DUMP_TIMEOUT_MS = 60000 };

/* Lives until its dump is done, even when the caller has gone. */
struct dump_call {
	struct supervisor *sv;
	struct varlink_call *call; /* NULL: the caller is gone */
};

static void dump_gone(void *arg)
{
	struct dump_call *d = arg;

	d->call = NULL;
}

static void dump_done(void *arg, char *const *dirs, size_t n)
{
	struct dump_call *d = arg;
	json_t *answer, *list;

	if (d->call) {
		answer = json_object();
		list = json_array();
		for (size_t i = 0; i < n; i++)
			if (dirs[i])
				json_add(list, json_string(dirs[i]));
		json_put(answer, "dirs", list);
		FEATURES_CALL(d->sv, note_missing_hosts, d->sv, answer);
		varlink_reply(d->call, answer);
	}
	free(d);
}

static int dump_refuse(
	struct varlink_call *call, const char *workers, int r, const struct error *err)
{
	if (r == -EINVAL)
		return varlink_error(
			call, "InvalidArgument", manager_invalid("workers", workers, err->text));
	if (r == -ENOENT)
		return varlink_error(
			call, "NotFound", manager_no_worker(*err->field ? err->field : workers));
	return varlink_error(call, "Internal", manager_internal(err->text, r));
}

int dump_method(struct varlink_call *call, json_t *p, void *arg)
{
	struct supervisor *sv = arg;
	const char *workers = json_get_string(p, "workers", NULL);
	int64_t timeout = json_get_int(p, "timeout_ms", DUMP_TIMEOUT_MS);
	_cleanup_free_ int *places = NULL;
	struct error err = { 0 };
	struct dump_call *d;
	size_t n;
	int r = worker_select_some(sv, workers, &places, &n, &err);

	if (r < 0)
		return dump_refuse(call, workers ? workers : "", r, &err);
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->sv = sv;
	d->call = call;
	r = watchdog_dump(sv, places, n, "asked for", (uint64_t)timeout, dump_done, d, &err);
	if (r < 0) {
		free(d);
		return varlink_error(call, "Internal", manager_internal(err.text, r));
	}
	varlink_call_on_gone(call, dump_gone, d);
	return 0;
}
