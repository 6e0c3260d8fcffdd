/* SPDX-License-Identifier: Apache-2.0 */
#include "common/notice/notice.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * Amazon EC2's metadata service, version 2: gets a token first, which is valid for hours, then asks
 * in each poll what will happen to a spot machine (404: nothing) and whether EC2 recommends to
 * leave it (404: no). A server that does not know tokens is asked without one, as version 1; a
 * server that refuses to give one counts as failing.
 */

enum { AWS_TTL_S = 21600, AWS_RENEW_S = 3600 };

static void aws_request(struct notice_machine *m, int64_t now_us, struct notice_request *ret)
{
	static const char *const paths[] = {
		[NOTICE_AWS_TOKEN] = "/latest/api/token",
		[NOTICE_AWS_ACTION] = "/latest/meta-data/spot/instance-action",
		[NOTICE_AWS_REBALANCE] = "/latest/meta-data/events/recommendations/rebalance",
	};
	int64_t age_us = now_us - m->aws.token_us;
	/* If the clock went backwards the token's age is unknown: get a new one. */
	bool old = age_us < 0 || age_us >= (AWS_TTL_S - AWS_RENEW_S) * INT64_C(1000000);

	/* A poll keeps its token to the end, unless the server refused it. */
	if (!m->aws.v1 && (!m->aws.token[0] || (old && m->aws.step != NOTICE_AWS_REBALANCE)))
		m->aws.step = NOTICE_AWS_TOKEN;
	else if (m->aws.step == NOTICE_AWS_TOKEN)
		m->aws.step = NOTICE_AWS_ACTION;
	snprintf(ret->path, sizeof(ret->path), "%s", paths[m->aws.step]);
	ret->put = m->aws.step == NOTICE_AWS_TOKEN;
	if (ret->put)
		snprintf(ret->headers[0], sizeof(ret->headers[0]),
			"X-aws-ec2-metadata-token-ttl-seconds: %d", AWS_TTL_S);
	else if (!m->aws.v1)
		snprintf(ret->headers[0], sizeof(ret->headers[0]), "X-aws-ec2-metadata-token: %s",
			m->aws.token);
}

static int aws_token(struct notice_machine *m, const struct notice_answer *a, int64_t now_us,
	struct notice_result *ret, struct error *err)
{
	int r;

	if (a->status == 404 || a->status == 405) {
		m->aws.v1 = true;
	} else {
		r = notice_expect_ok(a, err);
		if (!r)
			r = notice_word(a, m->aws.token, sizeof(m->aws.token), err);
		if (r < 0) {
			m->aws.token[0] = '\0';
			return error_prefix(err, "no token");
		}
		m->aws.token_us = now_us;
	}
	m->aws.step = NOTICE_AWS_ACTION;
	ret->halfway = true;
	ret->wait_ms = 0;
	return 0;
}

/* A string of printable ASCII that is short enough, or NULL. */
static const char *aws_string(const json_t *doc, const char *key)
{
	const char *s = json_get_string(doc, key, NULL);

	if (!s || !*s || strlen(s) > 64)
		return NULL;
	for (const char *p = s; *p; p++)
		if (*p < ' ' || *p > '~')
			return NULL;
	return s;
}

static int aws_document(const struct notice_answer *a, json_t **ret, struct error *err)
{
	int r = notice_expect_ok(a, err);

	if (!r)
		r = json_parse_object(a->body, a->len, ret, err);
	return r;
}

static int aws_action(const struct notice_answer *a, struct notice *n, struct error *err)
{
	_cleanup_json_ json_t *doc = NULL;
	const char *action, *time;
	int r = aws_document(a, &doc, err);

	if (r < 0)
		return error_prefix(err, "instance-action");
	action = aws_string(doc, "action");
	time = aws_string(doc, "time");
	if (!action || !time || notice_time_iso(time, &n->deadline_us) < 0)
		return error_set(
			err, -EPROTO, "instance-action: expected an object with action and time");
	snprintf(n->id, sizeof(n->id), "%s %s", action, time);
	snprintf(n->reason, sizeof(n->reason), "EC2 is going to %s this spot machine at %s", action,
		time);
	return 0;
}

static int aws_rebalance(const struct notice_answer *a, struct notice *n, struct error *err)
{
	_cleanup_json_ json_t *doc = NULL;
	const char *time;
	int64_t us;
	int r = aws_document(a, &doc, err);

	if (r < 0)
		return error_prefix(err, "rebalance");
	time = aws_string(doc, "noticeTime");
	if (!time || notice_time_iso(time, &us) < 0)
		return error_set(err, -EPROTO, "rebalance: expected an object with noticeTime");
	n->deadline_us = SPEC_UNSET;
	snprintf(n->id, sizeof(n->id), "rebalance %s", time);
	snprintf(n->reason, sizeof(n->reason),
		"EC2 recommends to leave this spot machine, since %s", time);
	return 0;
}

/* Handles the answer of either question of a poll, and chooses the next request. */
static int aws_event(struct notice_machine *m, const struct notice_answer *a,
	struct notice_result *ret, struct error *err)
{
	bool action = m->aws.step == NOTICE_AWS_ACTION;
	struct notice n = { 0 };
	int r = 0;

	if (a->status != 404)
		r = action ? aws_action(a, &n, err) : aws_rebalance(a, &n, err);
	if (r < 0)
		return r;
	if (action)
		m->aws.action_up = a->status != 404;
	if (a->status != 404 && (action || !m->aws.action_up || notice_is_new(m, n.id))) {
		struct notice urgent = m->current;

		notice_set(m, &n, ret);
		/* Keep the notice that has a deadline for jobs that start later. */
		if (!action && m->aws.action_up)
			m->current = urgent;
	} else if (a->status == 404 && !action && !m->aws.action_up) {
		m->up = false;
	}
	m->aws.step = action ? NOTICE_AWS_REBALANCE : NOTICE_AWS_ACTION;
	ret->halfway = action;
	ret->wait_ms = action ? 0 : m->poll_ms;
	snprintf(m->text, sizeof(m->text), "no end of this machine is planned%s",
		m->aws.v1 ? " (version 1: no tokens)" : "");
	return 0;
}

static int aws_answer(struct notice_machine *m, const struct notice_answer *a, int64_t now_us,
	struct notice_result *ret, struct error *err)
{
	int r;

	if (m->aws.step == NOTICE_AWS_TOKEN) {
		r = aws_token(m, a, now_us, ret, err);
		if (r < 0)
			m->aws.refused = false;
		return r;
	}
	if (a->status == 401 && !m->aws.v1 && !m->aws.refused) {
		/* The token has expired, or the server was restarted. */
		m->aws.refused = true;
		m->aws.token[0] = '\0';
		ret->halfway = true;
		ret->wait_ms = 0;
		return 0;
	}
	r = aws_event(m, a, ret, err);
	if (r < 0) {
		if (a->status == 401) {
			m->aws.token[0] = '\0';
			m->aws.v1 = false;
		}
		m->aws.step = NOTICE_AWS_ACTION;
	}
	/* A token is replaced once in a poll: otherwise a server that refuses all tokens would be
	 * asked without a pause. */
	if (m->aws.step == NOTICE_AWS_ACTION)
		m->aws.refused = false;
	return r;
}

const struct notice_kind notice_aws = {
	.source = "aws",
	.request = aws_request,
	.answer = aws_answer,
};
