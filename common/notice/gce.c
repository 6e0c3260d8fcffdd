/* SPDX-License-Identifier: Apache-2.0 */
#include "common/notice/notice.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

/*
 * Google Compute Engine's metadata server: one key for maintenance of the host, which a machine
 * with GPUs learns of an hour before and others a minute before, and one for the end of a spot or
 * preemptible machine, 30 s before. The server delays its answer until the value differs from the
 * one of last_etag, or timeout_sec is over. The very first request does not wait, since an event
 * may be under way already.
 */

enum {
	GCE_WAIT_S = 60,
	GCE_SLACK_S = 15, /* waits longer than timeout_sec for the delayed answer */
	GCE_ANSWER_MS = 5000,
};

static const int64_t GCE_MAINTENANCE_US = 60 * INT64_C(1000000);
static const int64_t GCE_MAINTENANCE_GPU_US = 3600 * INT64_C(1000000);
static const int64_t GCE_PREEMPTED_US = 30 * INT64_C(1000000);

static const char *gce_key(const struct notice_machine *m)
{
	return m->kind == &notice_gce_preempted ? "preempted" : "maintenance-event";
}

static void gce_request(struct notice_machine *m, int64_t now_us, struct notice_request *ret)
{
	bool waits = m->gce.etag[0] && !m->failures;
	int n = snprintf(
		ret->path, sizeof(ret->path), "/computeMetadata/v1/instance/%s", gce_key(m));

	snprintf(ret->headers[0], sizeof(ret->headers[0]), "Metadata-Flavor: Google");
	ret->timeout_ms = waits ? (GCE_WAIT_S + GCE_SLACK_S) * 1000 : GCE_ANSWER_MS;
	if (waits)
		snprintf(ret->path + n, sizeof(ret->path) - (size_t)n,
			"?wait_for_change=true&last_etag=%s&timeout_sec=%d", m->gce.etag,
			GCE_WAIT_S);
}

/* Whether the text can stand in a URL without being quoted. */
static bool gce_plain(const char *etag)
{
	return etag && *etag && strlen(etag) < sizeof(((struct notice_machine *)0)->gce.etag) &&
	       strspn(etag, "0123456789abcdefABCDEF") == strlen(etag);
}

/* SPEC_UNSET after the first answer: the event may have begun at any time before. */
static int64_t gce_deadline(const struct notice_machine *m, int64_t now_us)
{
	if (!m->gce.value[0])
		return SPEC_UNSET;
	if (m->kind == &notice_gce_preempted)
		return now_us + GCE_PREEMPTED_US;
	return now_us + (m->gpu ? GCE_MAINTENANCE_GPU_US : GCE_MAINTENANCE_US);
}

static void gce_notice(struct notice_machine *m, int64_t now_us, struct notice_result *ret)
{
	bool preempted = m->kind == &notice_gce_preempted;
	struct notice n = { .deadline_us = gce_deadline(m, now_us) };

	/* The event has no name: make one of key and time. */
	snprintf(n.id, sizeof(n.id), "%s-%lld", gce_key(m), (long long)now_us);
	snprintf(n.reason, sizeof(n.reason), "%s",
		preempted ? "GCE preempts this machine"
			  : "GCE ends this machine for maintenance of its host");
	notice_set(m, &n, ret);
}

/* Handles a value; -EPROTO for an unknown one. */
static int gce_value(struct notice_machine *m, const char *value, int64_t now_us,
	struct notice_result *ret, struct error *err)
{
	bool preempted = m->kind == &notice_gce_preempted;
	bool same = !strcmp(m->gce.value, value);

	if (!strcmp(value, preempted ? "FALSE" : "NONE")) {
		m->up = false;
	} else if (!strcmp(value, preempted ? "TRUE" : "TERMINATE_ON_HOST_MAINTENANCE")) {
		if (!m->up)
			gce_notice(m, now_us, ret);
	} else if (!preempted && !strcmp(value, "MIGRATE_ON_HOST_MAINTENANCE")) {
		m->up = false;
		ret->level = LOG_INFO;
		if (!same)
			snprintf(ret->message, sizeof(ret->message),
				"this machine is about to be moved to another host, and goes on");
	} else {
		return error_set(err, -EPROTO, "'%.64s' is no value of %s", value, gce_key(m));
	}
	snprintf(m->gce.value, sizeof(m->gce.value), "%s", value);
	return 0;
}

static int gce_answer(struct notice_machine *m, const struct notice_answer *a, int64_t now_us,
	struct notice_result *ret, struct error *err)
{
	char value[sizeof(m->gce.value)];
	int r;

	if (!a->flavor || strcmp(a->flavor, "Google"))
		return error_set(err, -EPROTO,
			"this is not GCE's metadata server: no header Metadata-Flavor: Google");
	r = notice_expect_ok(a, err);
	if (!r)
		r = notice_word(a, value, sizeof(value), err);
	if (!r)
		r = gce_value(m, value, now_us, ret, err);
	if (r < 0)
		return r;
	snprintf(m->gce.etag, sizeof(m->gce.etag), "%s", gce_plain(a->etag) ? a->etag : "");
	snprintf(m->text, sizeof(m->text), "%s is %s", gce_key(m), value);
	return 0;
}

const struct notice_kind notice_gce_maintenance = {
	.source = "gce",
	.request = gce_request,
	.answer = gce_answer,
};

const struct notice_kind notice_gce_preempted = {
	.source = "gce",
	.request = gce_request,
	.answer = gce_answer,
};
