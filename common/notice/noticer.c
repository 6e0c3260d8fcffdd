/* SPDX-License-Identifier: Apache-2.0 */
#include "common/notice/noticer_private.h"

#include "common/text/duration.h"
#include "common/text/json.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/*
 * Runs the machines of notice.h: each stream is in turn a timer and a request. Each callback does
 * its own work first and calls the owner's function last, which may change what is wanted, or free
 * everything.
 */

const struct noticer_cloud_info noticer_clouds[NOTICER_CLOUDS] = {
	[NOTICER_GCE] = { "gce", SPEC_NOTICE_GCE, PLATFORM_GCE },
	[NOTICER_AWS] = { "aws", SPEC_NOTICE_AWS, PLATFORM_AWS },
	[NOTICER_AZURE] = { "azure", SPEC_NOTICE_AZURE, PLATFORM_AZURE },
};

static const struct {
	enum noticer_cloud cloud;
	const struct notice_kind *kind;
} noticer_kinds[NOTICER_STREAMS] = {
	{ NOTICER_GCE, &notice_gce_maintenance },
	{ NOTICER_GCE, &notice_gce_preempted },
	{ NOTICER_AWS, &notice_aws },
	{ NOTICER_AZURE, &notice_azure },
};

static const char *noticer_env(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

static int64_t noticer_limit(void)
{
	const char *set = noticer_env("ELASTICD_METADATA_TIMEOUT");
	int64_t ms;

	return set && duration_parse_seconds(set, NULL, &ms, NULL) == 0 && ms > 0 && ms <= INT_MAX
		       ? ms
		       : NOTICER_LIMIT_MS;
}

static void noticer_set_endpoint(struct noticer *n, enum noticer_cloud cloud, const char *set,
	const char *env, const char *env2)
{
	const char *from = noticer_clouds[cloud].name;

	if (!set && env && (set = noticer_env(env)))
		from = env;
	if (!set && env2 && (set = noticer_env(env2)))
		from = env2;
	if (!set)
		set = "http://169.254.169.254";
	if (notice_endpoint(set, n->endpoints[cloud], sizeof(n->endpoints[0]), &n->bad[cloud]) < 0)
		error_prefix(&n->bad[cloud], "%s", from);
}

int noticer_new(struct loop *loop, const struct noticer_options *options, noticer_fn fn, void *arg,
	struct noticer **ret)
{
	const char *dmi = options->dmi_dir ? options->dmi_dir : noticer_env("ELASTICD_DMI_DIR");
	struct noticer *n = calloc(1, sizeof(*n));

	if (!n)
		return -ENOMEM;
	*n = (struct noticer){ .loop = loop, .fn = fn, .arg = arg, .message = options->message };
	n->poll_ms = options->poll_ms ? options->poll_ms : 1000;
	n->limit_ms = noticer_limit();
	TAILQ_INIT(&n->waiters);
	if ((dmi && !(n->dmi_dir = strdup(dmi))) || noticer_detect_init(n) < 0) {
		noticer_free(n);
		return -ENOMEM;
	}
	noticer_set_endpoint(
		n, NOTICER_GCE, options->gce_endpoint, "GCE_METADATA_HOST", "GCE_METADATA_IP");
	noticer_set_endpoint(
		n, NOTICER_AWS, options->aws_endpoint, "AWS_EC2_METADATA_SERVICE_ENDPOINT", NULL);
	noticer_set_endpoint(
		n, NOTICER_AZURE, options->azure_endpoint, "ELASTICD_AZURE_ENDPOINT", NULL);
	for (int i = 0; i < NOTICER_STREAMS; i++) {
		n->streams[i].owner = n;
		n->streams[i].cloud = noticer_kinds[i].cloud;
	}
	*ret = n;
	return 0;
}

static void stream_stop(struct noticer_stream *s)
{
	s->call = http_cancel(s->call);
	s->timer = loop_timer_free(s->timer);
	s->last_us = 0;
}

static void noticer_on_repeat(void *arg);

struct noticer *noticer_free(struct noticer *n)
{
	if (!n)
		return NULL;
	loop_cancel(n->loop, noticer_on_repeat, n);
	noticer_detect_cancel(n);
	for (int i = 0; i < NOTICER_STREAMS; i++)
		stream_stop(&n->streams[i]);
	http_free(n->http);
	free(n->dmi_dir);
	free(n);
	return NULL;
}

int noticer_open(struct noticer *n, struct error *err)
{
	return n->http ? 0 : http_new(n->loop, &n->http, err);
}

int noticer_url(const struct noticer *n, enum noticer_cloud cloud, const char *path, char **ret,
	struct error *err)
{
	if (n->bad[cloud].code) {
		*err = n->bad[cloud];
		return err->code;
	}
	if (asprintf(ret, "%s%s", n->endpoints[cloud], path) < 0) {
		*ret = NULL;
		return error_set(err, -ENOMEM, "out of memory");
	}
	return 0;
}

/* Whether another stream of the same cloud fails for the same reason: one message is enough. */
static bool stream_repeats(const struct noticer_stream *s)
{
	const struct noticer *n = s->owner;

	for (int i = 0; i < NOTICER_STREAMS; i++) {
		const struct noticer_stream *o = &n->streams[i];

		if (o != s && o->cloud == s->cloud && o->timer && o->machine.failures &&
			!strcmp(o->machine.text, s->machine.text))
			return true;
	}
	return false;
}

/* Handles an answer, or the reason for none. Calls the owner's functions last. */
static void stream_answered(struct noticer_stream *s, const struct notice_answer *a, bool asked)
{
	struct noticer *n = s->owner;
	int64_t now_us = (int64_t)loop_real_us();
	struct notice_result result;

	notice_machine_answer(&s->machine, a, now_us, &result);
	s->last_us = now_us;
	loop_timer_arm(s->timer, (uint64_t)result.wait_ms);
	if (result.message[0] && n->message && (asked || !stream_repeats(s)))
		n->message(n->arg, result.level, noticer_clouds[s->cloud].name, result.message);
	if (result.is_new)
		n->fn(n->arg, &result.notice);
}

static void stream_on_answer(void *arg, const struct http_answer *a)
{
	struct noticer_stream *s = arg;
	struct notice_answer answer = {
		.status = a->status,
		.body = a->body,
		.len = a->len,
		.flavor = http_header(a, "Metadata-Flavor"),
		.etag = http_header(a, "ETag"),
	};
	char why[512];

	s->call = NULL;
	if (!a->status) {
		snprintf(why, sizeof(why), "%s: %s", s->owner->endpoints[s->cloud], a->error);
		answer.error = why;
	}
	stream_answered(s, &answer, true);
}

static int stream_ask(struct noticer_stream *s, struct error *err)
{
	_cleanup_free_ char *url = NULL;
	struct notice_request request;
	struct http_request http = { 0 };
	int r;

	notice_machine_request(&s->machine, (int64_t)loop_real_us(), &request);
	r = noticer_url(s->owner, s->cloud, request.path, &url, err);
	if (!r)
		r = noticer_open(s->owner, err);
	if (r < 0)
		return r;
	http.url = url;
	http.put = request.put;
	http.timeout_ms = request.timeout_ms;
	if (http.timeout_ms < s->owner->limit_ms)
		http.timeout_ms = s->owner->limit_ms;
	http.connect_ms = s->owner->limit_ms;
	for (int i = 0; i < NOTICE_HEADERS && request.headers[i][0]; i++)
		http.headers[i] = request.headers[i];
	r = http_start(s->owner->http, &http, stream_on_answer, s, &s->call);
	return r < 0 ? error_set(err, r, "cannot ask %s: %s", url, strerror(-r)) : 0;
}

static void stream_on_timer(void *arg)
{
	struct noticer_stream *s = arg;
	struct error err = { 0 };

	if (stream_ask(s, &err) < 0)
		stream_answered(s, &(struct notice_answer){ .body = "", .error = err.text }, false);
}

/* Without memory for its timer it starts with the next change. */
static void stream_start(struct noticer *n, int i)
{
	struct noticer_stream *s = &n->streams[i];

	if (loop_timer_new(n->loop, stream_on_timer, s, &s->timer) < 0)
		return;
	notice_machine_init(&s->machine, noticer_kinds[i].kind, n->poll_ms);
	s->machine.gpu = platform_has_gpu();
	loop_timer_arm(s->timer, 0);
}

static bool noticer_wants(const struct noticer *n, enum noticer_cloud cloud)
{
	return (n->wanted & noticer_clouds[cloud].bit) ||
	       ((n->wanted & SPEC_NOTICE_CLOUD) && n->platform == noticer_clouds[cloud].platform);
}

void noticer_sync(struct noticer *n)
{
	bool any = n->detecting;

	for (int i = 0; i < NOTICER_STREAMS; i++) {
		struct noticer_stream *s = &n->streams[i];

		if (!noticer_wants(n, s->cloud))
			stream_stop(s);
		else if (!s->timer)
			stream_start(n, i);
		any = any || s->timer;
	}
	/* Also closes connections that were kept for the next request. */
	if (!any)
		n->http = http_free(n->http);
}

void noticer_set_poll(struct noticer *n, int64_t ms)
{
	n->poll_ms = ms;
	for (int i = 0; i < NOTICER_STREAMS; i++)
		n->streams[i].machine.poll_ms = ms;
}

void noticer_want(struct noticer *n, unsigned sources)
{
	n->wanted = sources;
	if (sources & SPEC_NOTICE_CLOUD)
		noticer_detect(n);
	else
		noticer_detect_stop(n);
	noticer_sync(n);
}

static void noticer_on_repeat(void *arg)
{
	struct noticer *n = arg;

	while (n->repeat) {
		int i = ffs((int)n->repeat) - 1;
		const struct noticer_stream *s = &n->streams[i];
		struct notice copy = s->machine.current;

		n->repeat &= ~(1U << i);
		if (!s->timer || !s->machine.up)
			continue;
		/* Cannot fail: this very call has just made room in the loop's array. */
		if (n->repeat)
			(void)!loop_defer(n->loop, noticer_on_repeat, n);
		n->fn(n->arg, &copy);
		return;
	}
}

void noticer_repeat(struct noticer *n)
{
	for (int i = 0; i < NOTICER_STREAMS; i++)
		if (n->streams[i].timer && n->streams[i].machine.up)
			n->repeat |= 1U << i;
	if (n->repeat && loop_defer(n->loop, noticer_on_repeat, n) < 0)
		n->repeat = 0;
}

static const char *stream_state(const struct noticer *n, const struct noticer_stream *s)
{
	if (!s->timer && (n->wanted & SPEC_NOTICE_CLOUD) && n->unsure)
		return "failing";
	if (!s->timer)
		return n->detecting && (n->wanted & SPEC_NOTICE_CLOUD) ? "waiting" : "off";
	if (s->machine.up)
		return "notice";
	if (!s->last_us)
		return "waiting";
	return s->machine.failures ? "failing" : "watching";
}

/* Of GCE's two streams, the one with the more important state is shown. */
static int stream_rank(const char *state)
{
	static const char *const order[] = { "off", "watching", "waiting", "failing", "notice" };
	int i = 0;

	while (strcmp(order[i], state))
		i++;
	return i;
}

static const char *stream_text(const struct noticer_stream *s, const char *state)
{
	if (!strcmp(state, "off"))
		return "no active job asks for it";
	if (!strcmp(state, "failing") && !s->timer)
		return "no cloud's metadata server answers; looked for again";
	if (!s->timer)
		return "waits until it is known which cloud this is";
	return s->last_us ? s->machine.text : "asked, no answer yet";
}

json_t *noticer_watches_json(const struct noticer *n)
{
	json_t *list = json_array();

	for (int cloud = 0; cloud < NOTICER_CLOUDS; cloud++) {
		const struct noticer_stream *best = NULL;
		json_t *j = json_object();
		const char *state;
		int64_t last_us = 0;

		for (int i = 0; i < NOTICER_STREAMS; i++) {
			const struct noticer_stream *s = &n->streams[i];

			if (s->cloud != (enum noticer_cloud)cloud)
				continue;
			if (!best || stream_rank(stream_state(n, s)) >
					     stream_rank(stream_state(n, best)))
				best = s;
			if (s->last_us > last_us)
				last_us = s->last_us;
		}
		state = stream_state(n, best);
		json_put_string(j, "source", noticer_clouds[cloud].name);
		json_put_string(j, "state", state);
		json_put_string(j, "text", stream_text(best, state));
		if (last_us)
			json_put_int(j, "last_us", last_us);
		json_add(list, j);
	}
	return list;
}
