/* SPDX-License-Identifier: Apache-2.0 */
#include "common/notice/noticer_private.h"

#include "common/base/backoff.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

/*
 * If the firmware leaves it open, asks all three clouds' servers at once for something that only
 * they can answer. Decides when all three have answered or limit_ms is over, so that their order
 * does not matter. No answer proves nothing (the network may be late, libcurl missing): tries
 * again, with growing pauses, while the cloud's notices are wanted.
 */

enum { PLATFORM_PAUSE_MS = 1000, PLATFORM_PAUSE_MAX_MS = 60000 };

static void platform_on_known(void *arg)
{
	struct noticer *n = arg;
	struct noticer_waiter *w = TAILQ_FIRST(&n->waiters), copy;

	if (!w)
		return;
	copy = *w;
	TAILQ_REMOVE(&n->waiters, w, entry);
	free(w);
	/* Cannot fail: this very call has just made room in the loop's array. */
	if (!TAILQ_EMPTY(&n->waiters))
		(void)!loop_defer(n->loop, platform_on_known, n);
	copy.done(copy.arg, platform_name(n->platform), n->details);
}

static void platform_retry(struct noticer *n, const char *why)
{
	char text[384];

	if (!(n->wanted & SPEC_NOTICE_CLOUD))
		return;
	loop_timer_arm(n->detect_timer,
		backoff_ms(PLATFORM_PAUSE_MS, n->detections, PLATFORM_PAUSE_MAX_MS));
	n->detections++;
	if (n->warned || !n->message)
		return;
	n->warned = true;
	snprintf(text, sizeof(text), "%.300s; tried again, for as long as it is wanted", why);
	n->message(n->arg, LOG_WARNING, "cloud", text);
}

/* unsure: why p is only a guess, or NULL. */
static void platform_found(struct noticer *n, enum platform p, const char *unsure)
{
	size_t used = strlen(n->details);

	n->detecting = false;
	n->platform = p;
	n->unsure = unsure;
	if (platform_has_gpu())
		snprintf(n->details + used, sizeof(n->details) - used, "; with a GPU of NVIDIA's");
	noticer_sync(n);
	if (!TAILQ_EMPTY(&n->waiters))
		(void)!loop_defer(n->loop, platform_on_known, n);
	if (unsure) {
		platform_retry(n, unsure);
		return;
	}
	if (n->warned && n->message)
		n->message(n->arg, LOG_NOTICE, "cloud", n->details);
	n->warned = false;
	n->detections = 0;
}

static void platform_decide(struct noticer *n)
{
	enum platform p = PLATFORM_OTHER;
	size_t used = strlen(n->details);
	const char *text;

	for (int i = NOTICER_CLOUDS; i-- > 0;)
		if (n->probes[i].yes)
			p = noticer_clouds[i].platform;
	text = p == PLATFORM_OTHER ? "no cloud's metadata server answers"
				   : "its metadata server answers";
	snprintf(n->details + used, sizeof(n->details) - used, "; %s", text);
	platform_found(n, p, p == PLATFORM_OTHER ? text : NULL);
}

/* Whether the answer is a token or a name, and not some proxy's error page. */
static bool platform_is_word(const struct http_answer *a)
{
	struct notice_answer answer = { .body = a->body, .len = a->len };
	char word[NOTICE_TOKEN];

	return a->len && isgraph((unsigned char)a->body[0]) &&
	       notice_word(&answer, word, sizeof(word), NULL) == 0;
}

static void platform_on_answer(void *arg, const struct http_answer *a)
{
	struct noticer_probe *p = arg;
	struct noticer *n = p->owner;
	const char *flavor = http_header(a, "Metadata-Flavor");
	bool google = flavor && !strcmp(flavor, "Google");

	p->call = NULL;
	p->yes = a->status == 200 && platform_is_word(a) && google == (p->cloud == NOTICER_GCE);
	for (int i = 0; i < NOTICER_CLOUDS; i++)
		if (n->probes[i].call)
			return;
	platform_decide(n);
}

static int platform_ask(struct noticer *n, enum noticer_cloud cloud, struct error *err)
{
	static const struct {
		const char *path, *header;
		bool put;
	} questions[] = {
		[NOTICER_GCE] = { "/computeMetadata/v1/instance/id", "Metadata-Flavor: Google",
			false },
		[NOTICER_AWS] = { "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds: 60",
			true },
		[NOTICER_AZURE] = { "/metadata/instance/compute/name?api-version=2020-09-01"
				    "&format=text",
			"Metadata: true", false },
	};
	struct noticer_probe *p = &n->probes[cloud];
	_cleanup_free_ char *url = NULL;
	struct http_request request = {
		.put = questions[cloud].put,
		.headers = { questions[cloud].header },
		.timeout_ms = n->limit_ms,
		.connect_ms = n->limit_ms,
	};
	int r = noticer_url(n, cloud, questions[cloud].path, &url, err);

	*p = (struct noticer_probe){ .owner = n, .cloud = cloud };
	if (r < 0)
		return r;
	request.url = url;
	r = http_start(n->http, &request, platform_on_answer, p, &p->call);
	return r < 0 ? error_set(err, r, "%s", strerror(-r)) : 0;
}

/* Deferred: requests start from the loop, never from within a call. */
static void platform_detect(void *arg)
{
	struct noticer *n = arg;
	struct error err = { 0 };
	enum platform p = platform_from_dmi(n->dmi_dir, n->details, sizeof(n->details));
	bool any = false;

	if (p != PLATFORM_UNKNOWN) {
		platform_found(n, p, NULL);
		return;
	}
	if (noticer_open(n, &err) < 0) {
		size_t used = strlen(n->details);

		snprintf(n->details + used, sizeof(n->details) - used, "; %.200s", err.text);
		platform_found(n, PLATFORM_OTHER, err.text);
		return;
	}
	for (int i = 0; i < NOTICER_CLOUDS; i++)
		if (platform_ask(n, (enum noticer_cloud)i, &err) == 0)
			any = true;
	if (!any)
		platform_decide(n);
}

void noticer_detect(struct noticer *n)
{
	bool known = n->platform != PLATFORM_UNKNOWN && !n->unsure;

	if (n->detecting || known || loop_timer_armed(n->detect_timer))
		return;
	n->detecting = loop_defer(n->loop, platform_detect, n) == 0;
}

static void platform_on_pause(void *arg)
{
	noticer_detect(arg);
}

int noticer_detect_init(struct noticer *n)
{
	return loop_timer_new(n->loop, platform_on_pause, n, &n->detect_timer);
}

void noticer_detect_stop(struct noticer *n)
{
	n->detections = 0;
	loop_timer_disarm(n->detect_timer);
}

void noticer_detect_cancel(struct noticer *n)
{
	struct noticer_waiter *w;

	n->detect_timer = loop_timer_free(n->detect_timer);
	loop_cancel(n->loop, platform_detect, n);
	loop_cancel(n->loop, platform_on_known, n);
	for (int i = 0; i < NOTICER_CLOUDS; i++)
		n->probes[i].call = http_cancel(n->probes[i].call);
	n->detecting = false;
	while ((w = TAILQ_FIRST(&n->waiters))) {
		TAILQ_REMOVE(&n->waiters, w, entry);
		free(w);
	}
}

int noticer_platform(struct noticer *n, noticer_platform_fn done, void *arg)
{
	struct noticer_waiter *w = calloc(1, sizeof(*w));

	if (!w)
		return -ENOMEM;
	*w = (struct noticer_waiter){ .done = done, .arg = arg };
	if (n->platform != PLATFORM_UNKNOWN) {
		if (loop_defer(n->loop, platform_on_known, n) < 0)
			goto fail;
	} else {
		noticer_detect(n);
		if (!n->detecting)
			goto fail;
	}
	TAILQ_INSERT_TAIL(&n->waiters, w, entry);
	return 0;
fail:
	free(w);
	return -ENOMEM;
}

void noticer_platform_forget(struct noticer *n, void *arg)
{
	struct noticer_waiter *w = TAILQ_FIRST(&n->waiters), *next;

	for (; w; w = next) {
		next = TAILQ_NEXT(w, entry);
		if (w->arg != arg)
			continue;
		TAILQ_REMOVE(&n->waiters, w, entry);
		free(w);
	}
}

const char *noticer_platform_known(const struct noticer *n)
{
	return n->platform == PLATFORM_UNKNOWN ? NULL : platform_name(n->platform);
}
