/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a handle: which worker this is, by the environment and by the agent's answer to Hello. */
#include "worker/api/binding.h"
#include "worker/api/board.h"
#include "worker/api/environment.h"
#include "worker/base/calls.h"
#include "worker/base/failure.h"
#include "worker/base/handle.h"
#include "worker/base/pool.h"
#include "worker/base/private_agent.h"
#include "worker/base/values.h"

#include "common/text/json.h"

#include <string.h>

/* An agent that is alive answers at once; one that is stopped must not keep its workers for ever.
 */
enum { OPEN_TIMEOUT_MS = 60000 };

/* A copy of text; NULL stays NULL. False where there is no memory. */
static bool copy_text(const char *text, char **ret)
{
	*ret = text ? strdup(text) : NULL;
	return !text || *ret;
}

static enum elasticd_status open_files(struct elasticd *h)
{
	if (!copy_text(env_text("ELASTICD_LOG_FILE"), &h->log_file) ||
		!copy_text(env_text("TORCHELASTIC_ERROR_FILE"), &h->error_file))
		return fail_memory();
	return ELASTICD_STATUS_OK;
}

static enum elasticd_status identity_texts(
	struct identity *i, const char *job, const char *run, const char *role)
{
	if (!copy_text(job, &i->job) || !copy_text(run, &i->run) || !copy_text(role, &i->role) ||
		asprintf(&i->worker, "%s:%d", role, i->index) < 0)
		return fail_memory();
	return ELASTICD_STATUS_OK;
}

/* From the agent's answer to Hello; what that does not say is in the environment. */
static enum elasticd_status identity_learn(struct elasticd *h, const json_t *hello)
{
	_cleanup_free_ char *role = text_take(hello, "worker");
	char *colon = role ? strrchr(role, ':') : NULL;
	struct identity *i = &h->identity;
	enum elasticd_status status;
	int code = WORKER_EXIT_CODE;

	if (!role)
		return fail_memory();
	if (!colon)
		return fail(ELASTICD_STATUS_INTERNAL,
			"the agent says that this is \"%s\", which is not a worker", role);
	*colon = '\0';
	i->index = atoi(colon + 1);
	i->rank = (int)json_get_int(hello, "rank", 0);
	i->attempt = (int)json_get_int(hello, "attempt", 0);
	i->start = (int)json_get_int(hello, "start", 0);
	i->local_rank = i->rank;
	i->world_size = (int)json_array_size(json_get_array(hello, "members"));
	h->attempt = (uint64_t)i->attempt;
	status = env_int("LOCAL_RANK", 1 << 30, &i->local_rank);
	if (!status)
		status = env_int("WORLD_SIZE", 1 << 30, &i->world_size);
	if (!status)
		status = env_int("ELASTICD_PREEMPTION_EXIT_CODE", 255, &code);
	atomic_store(&h->exit_code, code);
	if (status)
		return status;
	return identity_texts(
		i, json_get_string(hello, "job", ""), json_get_string(hello, "run", ""), role);
}

static enum elasticd_status open_supervised(struct elasticd *h, const char *socket)
{
	_cleanup_json_ json_t *hello = NULL;
	const struct wait wait = { .timeout_ms = OPEN_TIMEOUT_MS };
	const char *token = env_text("ELASTICD_TOKEN");
	enum elasticd_status status;
	struct params a = PARAMS_EMPTY;

	if (!token)
		return fail(ELASTICD_STATUS_INVALID_ARGUMENT,
			"ELASTICD_TOKEN: expected one beside ELASTICD_WORKER_SOCKET, got nothing");
	status = env_token(token, &h->token);
	if (status)
		return status;
	if (!copy_text(socket, &h->socket) || !copy_text(token, &h->token_text))
		return fail_memory();
	status = board_open(h);
	if (status)
		return status;
	params_text(&a, "token", token);
	status = call_make(h, "Hello", &a, wait, &hello);
	if (status == ELASTICD_STATUS_DEADLINE_EXCEEDED)
		status = fail(ELASTICD_STATUS_UNAVAILABLE, "%s: the agent does not answer", socket);
	return status ? status : identity_learn(h, hello);
}

enum elasticd_status elasticd_open(struct elasticd **ret)
{
	const char *socket = env_text("ELASTICD_WORKER_SOCKET");
	struct elasticd *h = handle_new();
	enum elasticd_status status;

	if (!h)
		return fail_memory();
	/* jansson chooses its seed at the first object. A child that is forked meanwhile would wait
	 * for ever for the thread that does, which it has not got. */
	json_object_seed(0);
	status = open_files(h);
	if (!status)
		status = socket ? open_supervised(h, socket) : private_agent_open(h);
	if (status)
		handle_free(h);
	else
		*ret = h;
	return status;
}

void elasticd_close(struct elasticd *h)
{
	if (h)
		handle_free(h);
}

void elasticd_cancel(struct elasticd *h)
{
	pool_cancel(h);
}

void elasticd_give_up(struct elasticd *h)
{
	pool_give_up(h);
}

void elasticd_interruptible(struct elasticd *h, bool on)
{
	atomic_store(&h->interruptible, on);
}
