/* SPDX-License-Identifier: Apache-2.0 */
#include "common/varlink/manager_error.h"

#include "common/text/duration.h"
#include "common/text/json.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* {"message": the text}, whatever its bytes are. */
static json_t *message_json(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static json_t *message_json(const char *fmt, ...)
{
	json_t *p = json_object();
	char *text;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0)
		return p;
	json_put(p, "message", json_string_lossy(text, (size_t)n));
	free(text);
	return p;
}

static json_t *with_text(json_t *p, const char *key, const char *text)
{
	json_put(p, key, json_string_lossy(text, strlen(text)));
	return p;
}

json_t *manager_internal(const char *message, int code)
{
	json_t *p = with_text(json_object(), "message", message);

	json_put_int(p, "errno", -code);
	return p;
}

json_t *manager_no_job(const char *job)
{
	return with_text(message_json("no job named %s", *job ? job : "\"\""), "job", job);
}

json_t *manager_no_role(const char *role)
{
	return with_text(message_json("there is no role named %s", role), "role", role);
}

json_t *manager_no_worker(const char *worker)
{
	return with_text(message_json("there is no worker %s", worker), "worker", worker);
}

json_t *manager_no_host(const char *host, const char *message)
{
	return with_text(message_json("%s", message), "host", host);
}

json_t *manager_no_attempt(int64_t attempt)
{
	json_t *p = message_json("there is no attempt %" PRId64, attempt);

	json_put_int(p, "attempt", attempt);
	return p;
}

json_t *manager_job_exists(const char *job, const char *run)
{
	json_t *p = message_json(
		*run ? "job %s is already active (run %s)" : "job %s is already active", job, run);

	return with_text(with_text(p, "job", job), "run", run);
}

static bool state_is_final(const char *state)
{
	static const char *const final[] = { "succeeded", "failed", "stopped", "preempted" };

	for (size_t i = 0; i < sizeof(final) / sizeof(final[0]); i++)
		if (!strcmp(state, final[i]))
			return true;
	return false;
}

json_t *manager_not_active(const char *job, const char *state)
{
	json_t *p = message_json("job %s is not %s: its state is %s", job,
		state_is_final(state) ? "active" : "running", state);

	return with_text(with_text(p, "job", job), "state", state);
}

json_t *manager_still_active(const char *job, const char *state)
{
	json_t *p = message_json("job %s is still %s; stop it first", job, state);

	return with_text(with_text(p, "job", job), "state", state);
}

json_t *manager_worker_active(const char *worker, const char *state)
{
	json_t *p = message_json("worker %s is %s", worker, state);

	return with_text(with_text(p, "worker", worker), "state", state);
}

json_t *manager_invalid(const char *field, const char *value, const char *message)
{
	bool named = !*field || !strncmp(message, field, strlen(field));
	json_t *p;

	if (named)
		p = message_json("%s", message);
	else if (value)
		p = message_json("%s %s: %s", field, value, message);
	else
		p = message_json("%s: %s", field, message);
	return with_text(p, "field", field);
}

json_t *manager_limit(const char *what, int64_t limit)
{
	json_t *p = message_json("elasticd's limit of %s is reached: %" PRId64, what, limit);

	json_put_int(p, "limit", limit);
	return p;
}

json_t *manager_agent_lost(const char *job)
{
	json_t *p = message_json("the agent of job %s was lost; elasticd is dealing with it", job);

	return with_text(p, "job", job);
}

json_t *manager_agent_silent(const char *job, int64_t since_us, int64_t now_us, const char *reason)
{
	char took[DURATION_TEXT_MAX];
	int64_t ms = now_us > since_us ? (now_us - since_us) / 1000 : 0;
	json_t *p = message_json("the agent of job %s has not answered for %s%s%s; 'elasticctl "
				 "stop %s' ends the job all the same",
		job, duration_text(ms, took), reason ? ": " : "", reason ? reason : "", job);

	json_put_int(p, "since_us", since_us);
	if (reason)
		with_text(p, "reason", reason);
	return with_text(p, "job", job);
}

json_t *manager_shutting_down(void)
{
	return message_json("elasticd is shutting down");
}
