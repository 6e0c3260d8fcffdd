/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jobs/mirror.h"

#include "common/base/paths.h"
#include "common/text/json.h"

#include <errno.h>
#include <string.h>

enum {
	WORKERS_MAX = 16384,
	BRIEF_STRING_BYTES = 4096,
	BRIEF_BYTES = 64 << 10,
	/* The same after the run's end: it stays in memory as long as the run is known. */
	SHORT_STRING_BYTES = 256,
	SHORT_BYTES = 4096,
};

void mirror_fini(struct mirror *m)
{
	free(m->text);
	free(m->brief);
	free(m->silent_why);
	memset(m, 0, sizeof(*m));
}

void mirror_drop(struct mirror *m)
{
	free(m->text);
	m->text = NULL;
	m->text_len = 0;
}

int mirror_cut(struct mirror *m)
{
	char *text;
	int n = asprintf(&text, "{\"job\":%s}", m->brief);

	if (n < 0)
		return -ENOMEM;
	free(m->text);
	m->text = text;
	m->text_len = (size_t)n;
	return 0;
}

const char *mirror_state_name(enum mirror_state state)
{
#define MIRROR_NAME(id, text, ended) [MIRROR_##id] = text,
	static const char *const names[] = { MIRROR_STATES(MIRROR_NAME) };

	return state < MIRROR_N ? names[state] : "?";
}

bool mirror_state_ended(enum mirror_state state)
{
#define MIRROR_ENDED(id, text, ended) [MIRROR_##id] = ended,
	static const bool flags[] = { MIRROR_STATES(MIRROR_ENDED) };

	return state < MIRROR_N && flags[state];
}

static int state_from_name(const char *name)
{
	for (int i = 0; name && i < MIRROR_N; i++)
		if (!strcmp(name, mirror_state_name(i)))
			return i;
	return -EINVAL;
}

/* The members of a Job that readers of the mirror rely on. */
static const struct {
	const char *name;
	json_type type;
	bool required;
} members[] = {
	{ "state", JSON_STRING, true },
	{ "ready", JSON_TRUE, false },
	{ "reason", JSON_STRING, false },
	{ "verdict", JSON_OBJECT, false },
	{ "started_us", JSON_INTEGER, false },
	{ "ended_us", JSON_INTEGER, false },
	{ "attempt", JSON_INTEGER, true },
	{ "restarts", JSON_INTEGER, true },
	{ "max_restarts", JSON_INTEGER, true },
	{ "next_try_us", JSON_INTEGER, false },
	{ "agent_pid", JSON_INTEGER, false },
	{ "command", JSON_STRING, true },
	{ "cwd", JSON_STRING, false },
	{ "log_dir", JSON_STRING, false },
	{ "log_bytes", JSON_INTEGER, false },
	{ "preemption", JSON_OBJECT, false },
	{ "hosts", JSON_ARRAY, false },
	{ "note", JSON_STRING, false },
	{ "origin", JSON_STRING, false },
	{ "queue", JSON_OBJECT, false },
	{ "goodput", JSON_OBJECT, false },
	{ "workers", JSON_ARRAY, true },
};

static const struct {
	const char *name;
	json_type type;
} worker_members[] = {
	{ "role", JSON_STRING },
	{ "index", JSON_INTEGER },
	{ "rank", JSON_INTEGER },
	{ "local_rank", JSON_INTEGER },
	{ "state", JSON_STRING },
};

static int check_workers(const json_t *workers, struct error *err)
{
	json_t *worker;
	size_t i;

	if (json_array_size(workers) > WORKERS_MAX)
		return error_set(err, -EBADMSG, "workers: expected at most %d", WORKERS_MAX);
	json_array_foreach (workers, i, worker)
		for (size_t k = 0; k < sizeof(worker_members) / sizeof(*worker_members); k++) {
			const json_t *v = json_object_get(worker, worker_members[k].name);

			if (!v || json_typeof(v) != worker_members[k].type)
				return error_set(err, -EBADMSG, "workers[%zu].%s: wrong type", i,
					worker_members[k].name);
		}
	return 0;
}

static int check_job(const json_t *job, struct error *err)
{
	if (!json_is_object(job))
		return error_set(err, -EBADMSG, "job: expected an object");
	for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++) {
		const json_t *v = json_object_get(job, members[i].name);

		if (!v || json_is_null(v)) {
			if (!members[i].required)
				continue;
			return error_set(err, -EBADMSG, "job.%s: missing", members[i].name);
		}
		if (json_typeof(v) != members[i].type &&
			!(json_is_boolean(v) && members[i].type == JSON_TRUE))
			return error_set(err, -EBADMSG, "job.%s: expected %s", members[i].name,
				json_type_name(v));
	}
	if (state_from_name(json_get_string(job, "state", NULL)) < 0)
		return error_set(err, -EBADMSG, "job.state: unknown state");
	return check_workers(json_object_get(job, "workers"), err);
}

static int put_identity(json_t *job, const struct job_record *r)
{
	int code = json_put_string(job, "name", r->name);

	code = code ? code : json_put_string(job, "run", r->run);
	code = code ? code : json_put_string(job, "user", r->user);
	code = code ? code : json_put_int(job, "uid", r->uid);
	return code ? code : json_put_int(job, "created_us", r->created_us);
}

/* Lists show the beginning of a long string. */
static int cut_strings(json_t *obj, size_t most)
{
	const char *key;
	json_t *v;

	json_object_foreach (obj, key, v) {
		size_t n = most;

		if (json_string_length(v) <= n)
			continue;
		while (n && ((unsigned char)json_string_value(v)[n] & 0xc0) == 0x80)
			n--;
		if (json_put(obj, key, json_string_lossy(json_string_value(v), n)) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* A verdict for lists: who failed and how, without pages of text. */
static json_t *brief_verdict(const json_t *verdict)
{
	json_t *copy = json_copy((json_t *)verdict);
	json_t *cause = json_get_object(verdict, "root_cause");

	if (copy && cause) {
		cause = json_copy(cause);
		json_object_del(cause, "traceback");
		json_object_del(cause, "stderr_tail");
		if (cut_strings(cause, BRIEF_STRING_BYTES) < 0 ||
			json_put(copy, "root_cause", cause) < 0) {
			json_decref(copy);
			return NULL;
		}
	}
	(void)!cut_strings(copy, BRIEF_STRING_BYTES);
	return copy;
}

static char *brief_text(const json_t *job)
{
	_cleanup_json_ json_t *copy = json_copy((json_t *)job);
	const json_t *verdict = json_get_object(job, "verdict");

	/* In a brief Job, which has no workers, their number is still needed. There may be
	 * thousands of hosts. */
	if (copy)
		json_object_del(copy, "hosts");
	if (!copy || cut_strings(copy, BRIEF_STRING_BYTES) < 0 ||
		json_put_int(copy, "worker_count",
			(int64_t)json_array_size(json_get_array(job, "workers"))) < 0 ||
		json_put(copy, "workers", json_array()) < 0)
		return NULL;
	if (verdict && json_put(copy, "verdict", brief_verdict(verdict)) < 0)
		return NULL;
	return json_dump_text(copy, NULL);
}

/* Copies members that are short by their type, and the beginning of strings. */
static int keep_members(json_t *to, const json_t *from, const char *const *names)
{
	int code = to ? 0 : -ENOMEM;

	for (; !code && *names; names++) {
		json_t *v = json_object_get(from, *names);

		if (json_is_string(v) || json_is_number(v))
			code = json_put(to, *names, json_incref(v));
	}
	return code ? code : cut_strings(to, SHORT_STRING_BYTES);
}

/* The members that a list shows. */
static json_t *short_job(const json_t *job)
{
	static const char *const kept[] = { "name", "run", "user", "uid", "created_us", "state",
		"started_us", "ended_us", "attempt", "restarts", "max_restarts", "command", "cwd",
		"log_dir", "log_bytes", "reason", "origin", "worker_count", NULL };
	static const char *const kept_verdict[] = { "result", "exit_status", "message", NULL };
	static const char *const kept_goodput[] = { "percent", "total_ms", "working_ms",
		"waiting_ms", "starting_ms", "stopping_ms", "saving_ms", "hanging_ms",
		"repeated_ms", "unknown_ms", NULL };
	const json_t *goodput = json_object_get(job, "goodput");
	_cleanup_json_ json_t *copy = json_object();
	_cleanup_json_ json_t *verdict = json_object();
	_cleanup_json_ json_t *times = json_object();
	int code = keep_members(copy, job, kept);

	if (!code && goodput)
		code = keep_members(times, goodput, kept_goodput);
	if (!code && goodput)
		code = json_put(copy, "goodput", json_incref(times));

	if (!code)
		code = keep_members(verdict, json_object_get(job, "verdict"), kept_verdict);
	if (!code)
		code = json_put(copy, "verdict", json_incref(verdict));
	if (!code)
		code = json_put(copy, "workers", json_array());
	return code ? NULL : TAKE_PTR(copy);
}

void mirror_shorten(struct mirror *m)
{
	_cleanup_json_ json_t *job = NULL;
	_cleanup_json_ json_t *less = NULL;
	char *text;

	if (!m->brief || strlen(m->brief) <= SHORT_BYTES)
		return;
	job = json_loads(m->brief, 0, NULL);
	less = short_job(job);
	text = less ? json_dump_text(less, NULL) : NULL;
	if (!text)
		return; /* no memory: it stays long */
	free(m->brief);
	m->brief = text;
}

static void take_facts(struct mirror *m, const json_t *job)
{
	m->state = state_from_name(json_get_string(job, "state", NULL));
	m->ready = m->state == MIRROR_RUNNING && json_get_bool(job, "ready", true);
	m->has_verdict = json_get_object(job, "verdict") != NULL;
	m->several = json_get_array(job, "hosts") != NULL;
	m->ended_us = json_get_int(job, "ended_us", 0);
	m->log_bytes = json_get_int(job, "log_bytes", 0);
}

static int render_texts(struct mirror *m, json_t *job, struct error *err)
{
	_cleanup_json_ json_t *answer = json_object();
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *brief = NULL;
	int64_t silent_us = m->silent_us;
	char *silent_why = m->silent_why;
	size_t len = 0;

	if (json_put(answer, "job", json_incref(job)) < 0 ||
		(silent_us && json_put_int(job, "agent_silent_since_us", silent_us) < 0) ||
		json_put_string(job, "agent_silent_reason", silent_why) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	text = json_dump_text(answer, &len);
	brief = brief_text(job);
	if (!text || !brief)
		return error_set(err, -ENOMEM, "out of memory");
	if (strlen(brief) > BRIEF_BYTES)
		return error_set(err, -EBADMSG, "job: longer than %d bytes without its workers",
			BRIEF_BYTES);
	m->silent_why = NULL;
	mirror_fini(m);
	m->silent_us = silent_us;
	m->silent_why = silent_why;
	take_facts(m, job);
	m->text = TAKE_PTR(text);
	m->text_len = len;
	m->brief = TAKE_PTR(brief);
	return 0;
}

int mirror_check(const struct job_record *r, json_t *job, struct error *err)
{
	int code = check_job(job, err);

	if (code < 0)
		return code;
	if (put_identity(job, r) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	json_object_del(job, "agent_silent_since_us");
	json_object_del(job, "agent_silent_reason");
	return 0;
}

int mirror_set(struct mirror *m, const struct job_record *r, json_t *job, struct error *err)
{
	int code = mirror_check(r, job, err);

	return code < 0 ? code : render_texts(m, job, err);
}

int mirror_restore(struct mirror *m, const struct job_record *r, json_t *brief, struct error *err)
{
	int code = mirror_check(r, brief, err);
	char *text;

	if (code < 0)
		return code;
	text = json_dump_text(brief, NULL);
	if (!text)
		return error_set(err, -ENOMEM, "out of memory");
	mirror_fini(m);
	m->brief = text;
	take_facts(m, brief);
	return 0;
}

int mirror_initial(
	struct mirror *m, const struct job_record *r, const struct spec *spec, struct error *err)
{
	_cleanup_json_ json_t *job = json_object();
	_cleanup_free_ char *command = spec ? spec_command_line(spec) : NULL;
	_cleanup_free_ char *logs = NULL;
	int code = job ? json_put_string(job, "state", "pending") : -ENOMEM;

	if (strcmp(r->log_dir, "/dev/null"))
		logs = paths_join(r->log_dir, r->run);
	code = code ? code : json_put_string(job, "reason", "its agent is being started");
	code = code ? code : json_put_int(job, "attempt", 0);
	code = code ? code : json_put_int(job, "restarts", 0);
	code = code ? code : json_put_int(job, "max_restarts", spec ? spec->restart.max : 0);
	code = code ? code : json_put_string(job, "command", command ? command : "");
	code = code ? code : json_put_string(job, "cwd", spec ? spec->cwd : NULL);
	code = code ? code : json_put_string(job, "origin", spec ? spec->origin : NULL);
	code = code ? code : json_put_string(job, "log_dir", logs);
	code = code ? code : json_put(job, "workers", json_array());
	if (code < 0)
		return error_set(err, code, "out of memory");
	return mirror_set(m, r, job, err);
}

json_t *mirror_job(const struct mirror *m)
{
	_cleanup_json_ json_t *answer = m->text ? json_loadb(m->text, m->text_len, 0, NULL) : NULL;

	return json_incref(json_object_get(answer, "job"));
}

json_t *mirror_job_of(const struct mirror *m, const struct ranks *only)
{
	json_t *job = mirror_job(m), *workers = json_get_array(job, "workers");

	for (size_t i = json_array_size(workers); i-- > 0;)
		if (!ranks_contains(
			    only, (int)json_get_int(json_array_get(workers, i), "rank", -1)))
			json_array_remove(workers, i);
	return job;
}

int mirror_reason(
	struct mirror *m, const struct job_record *r, const char *reason, struct error *err)
{
	_cleanup_json_ json_t *job = mirror_job(m);

	if (!job || json_put_string(job, "reason", reason) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	return mirror_set(m, r, job, err);
}

void mirror_heard(struct mirror *m)
{
	m->silent_us = 0;
	free(m->silent_why);
	m->silent_why = NULL;
}

int mirror_silent(struct mirror *m, const struct job_record *r, int64_t since_us, const char *why,
	struct error *err)
{
	_cleanup_json_ json_t *job = mirror_job(m);

	mirror_heard(m);
	m->silent_us = since_us;
	m->silent_why = why ? strdup(why) : NULL;
	return job ? mirror_set(m, r, job, err) : error_set(err, -ENOMEM, "out of memory");
}

static bool check_event(const struct job_record *r, json_t *e)
{
	return json_is_integer(json_object_get(e, "seq")) &&
	       json_is_integer(json_object_get(e, "time_us")) &&
	       json_is_string(json_object_get(e, "event")) &&
	       json_is_string(json_object_get(e, "text")) &&
	       json_put_string(e, "job", r->name) == 0 && json_put_string(e, "run", r->run) == 0;
}

void mirror_check_events(const struct job_record *r, json_t *events)
{
	size_t kept = 0, n = json_array_size(events);
	json_t *e;

	for (size_t i = 0; i < n && kept < MIRROR_EVENTS_MAX; i++) {
		e = json_array_get(events, i);
		if (!check_event(r, e))
			continue;
		if (kept < i && json_array_set(events, kept, e) < 0)
			break;
		kept++;
	}
	/* From the end, where nothing has to be moved. */
	while (n > kept)
		json_array_remove(events, --n);
}

static const char *state_of_result(const char *result)
{
	static const char *const same[] = { "succeeded", "failed", "stopped", "preempted" };

	for (size_t i = 0; i < sizeof(same) / sizeof(*same); i++)
		if (!strcmp(result, same[i]))
			return same[i];
	return "failed"; /* timeout, agent_lost */
}

/* Ends the workers that had no end: killed if the agent was lost, else stopped by the agent. */
static int end_workers(json_t *workers, bool lost, int64_t now_us)
{
	json_t *worker;
	size_t i;

	json_array_foreach (workers, i, worker) {
		const char *state = json_get_string(worker, "state", "");
		int code;

		if (!strcmp(state, "succeeded") || !strcmp(state, "failed") ||
			!strcmp(state, "stopped"))
			continue;
		code = json_put_string(worker, "state", lost ? "failed" : "stopped");
		if (lost && !code)
			code = json_put_string(worker, "reason", "agent-lost");
		code = code ? code : json_put_int(worker, "ended_us", now_us);
		if (code < 0)
			return code;
	}
	return 0;
}

/* Whether the agent itself reported that verdict, in a Job with all details of the end. */
static bool agent_reported(const json_t *job, const json_t *verdict)
{
	static const char *const keys[] = { "result", "exit_status", "message" };
	const json_t *reported = json_object_get(job, "verdict");

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (!json_equal(
			    json_object_get(reported, keys[i]), json_object_get(verdict, keys[i])))
			return false;
	return json_is_integer(json_object_get(job, "ended_us"));
}

int mirror_finish(struct mirror *m, const struct job_record *r, const json_t *verdict,
	int64_t now_us, struct error *err)
{
	_cleanup_json_ json_t *job = mirror_job(m);
	const char *result = json_get_string(verdict, "result", "failed");
	const char *message = json_get_string(verdict, "message", "");
	bool has_reason = strcmp(result, "succeeded") && *message;
	int code = job ? 0 : -ENOMEM;

	mirror_heard(m);
	if (job && agent_reported(job, verdict))
		return 0;
	if (!code && !json_is_integer(json_object_get(job, "ended_us")))
		code = json_put_int(job, "ended_us", now_us);
	if (!code) {
		json_object_del(job, "next_try_us");
		json_object_del(job, "ready");
		json_object_del(job, "reason");
		json_object_del(job, "agent_pid");
		code = json_put_string(job, "state", state_of_result(result));
	}
	/* As the agent itself has it, whose last state did not come. */
	if (!code && has_reason)
		code = json_put_string(job, "reason", message);
	code = code ? code : json_put(job, "verdict", json_incref((json_t *)verdict));
	code = code ? code
		    : end_workers(json_object_get(job, "workers"), !strcmp(result, "agent_lost"),
			      now_us);
	if (code < 0)
		return error_set(err, code, "out of memory");
	return mirror_set(m, r, job, err);
}
