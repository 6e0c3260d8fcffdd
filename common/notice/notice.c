/* SPDX-License-Identifier: Apache-2.0 */
#include "common/notice/notice.h"

#include "common/base/backoff.h"
#include "common/text/json.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <time.h>

enum { NOTICE_BACKOFF_MS = 1000, NOTICE_BACKOFF_MAX_MS = 60000 };

bool notice_source_is_known(const char *source)
{
	static const char *const known[] = {
#define X(name) #name,
		NOTICE_SOURCES(X)
#undef X
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(known[i], source))
			return true;
	return false;
}

void notice_machine_init(struct notice_machine *m, const struct notice_kind *kind, int64_t poll_ms)
{
	*m = (struct notice_machine){ .kind = kind, .poll_ms = poll_ms };
}

void notice_machine_request(struct notice_machine *m, int64_t now_us, struct notice_request *ret)
{
	*ret = (struct notice_request){ .timeout_ms = 5000 };
	m->kind->request(m, now_us, ret);
}

static int64_t notice_backoff_ms(unsigned failures)
{
	return (int64_t)backoff_ms(NOTICE_BACKOFF_MS, failures - 1, NOTICE_BACKOFF_MAX_MS);
}

static void notice_failed(
	struct notice_machine *m, const struct error *err, struct notice_result *ret)
{
	*ret = (struct notice_result){ .failed = true };
	m->failures++;
	ret->wait_ms = notice_backoff_ms(m->failures);
	if (ret->wait_ms < m->poll_ms)
		ret->wait_ms = m->poll_ms;
	snprintf(m->text, sizeof(m->text), "%.255s", err->text);
	if (m->failures > 1)
		return;
	ret->level = LOG_WARNING;
	snprintf(ret->message, sizeof(ret->message),
		"%.300s; tried again, for as long as it is wanted", err->text);
}

static void notice_worked(struct notice_machine *m, struct notice_result *ret)
{
	if (m->up)
		snprintf(m->text, sizeof(m->text), "%s", m->current.reason);
	if (ret->halfway)
		return;
	if (m->failures && !ret->message[0]) {
		ret->level = LOG_NOTICE;
		snprintf(ret->message, sizeof(ret->message), "answers again");
	}
	m->failures = 0;
}

void notice_machine_answer(struct notice_machine *m, const struct notice_answer *a, int64_t now_us,
	struct notice_result *ret)
{
	struct error err = { 0 };
	int r = -EIO;

	*ret = (struct notice_result){ .wait_ms = m->poll_ms };
	if (a->status)
		r = m->kind->answer(m, a, now_us, ret, &err);
	else
		error_set(&err, r, "%s", a->error ? a->error : "no answer");
	if (r < 0)
		notice_failed(m, &err, ret);
	else
		notice_worked(m, ret);
}

bool notice_is_new(const struct notice_machine *m, const char *id)
{
	unsigned n = m->n_reported < NOTICE_REPORTED ? m->n_reported : NOTICE_REPORTED;

	for (unsigned i = 0; i < n; i++)
		if (!strcmp(m->reported[i], id))
			return false;
	return true;
}

void notice_set(struct notice_machine *m, const struct notice *n, struct notice_result *ret)
{
	m->up = true;
	m->current = *n;
	m->current.source = m->kind->source;
	if (!notice_is_new(m, n->id))
		return;
	snprintf(m->reported[m->n_reported++ % NOTICE_REPORTED], sizeof(m->reported[0]), "%s",
		n->id);
	ret->is_new = true;
	ret->notice = m->current;
}

int notice_word(const struct notice_answer *a, char *ret, size_t size, struct error *err)
{
	const char *s = a->body, *end = a->body + a->len;

	while (s < end && isspace((unsigned char)*s))
		s++;
	while (end > s && isspace((unsigned char)end[-1]))
		end--;
	if (s == end)
		return error_set(err, -EPROTO, "the answer is empty");
	for (const char *p = s; p < end; p++)
		if (!isgraph((unsigned char)*p) || *p == '<')
			return error_set(err, -EPROTO, "the answer is not one word");
	if ((size_t)(end - s) >= size)
		return error_set(
			err, -EPROTO, "the answer is longer than %zu characters", size - 1);
	memcpy(ret, s, (size_t)(end - s));
	ret[end - s] = '\0';
	return 0;
}

int notice_expect_ok(const struct notice_answer *a, struct error *err)
{
	return a->status == 200
		       ? 0
		       : error_set(err, -EPROTO, "the server answered with status %d", a->status);
}

/* Converts the time back to check it: there is no 31 February. */
static int notice_time(struct tm *tm, int64_t *ret_us)
{
	struct tm given = *tm;
	time_t t;

	if (tm->tm_year < 70 || tm->tm_year > 1000 || tm->tm_sec > 60)
		return -EINVAL;
	t = timegm(tm);
	if (t < 0 || tm->tm_mday != given.tm_mday || tm->tm_mon != given.tm_mon)
		return -EINVAL;
	if (given.tm_hour > 23 || given.tm_min > 59)
		return -EINVAL;
	*ret_us = (int64_t)t * 1000000;
	return 0;
}

int notice_time_iso(const char *text, int64_t *ret_us)
{
	struct tm tm = { 0 };
	int end = 0;

	if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
		    &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &end) != 6)
		return -EINVAL;
	if (text[end] == '.')
		end += 1 + (int)strspn(text + end + 1, "0123456789");
	if (strcmp(text + end, "Z"))
		return -EINVAL;
	if (strspn(text, "0123456789-T:.Z") != strlen(text))
		return -EINVAL;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	return notice_time(&tm, ret_us);
}

int notice_time_http(const char *text, int64_t *ret_us)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	char day[4], month[4];
	const char *found;
	struct tm tm = { 0 };
	int end = 0;

	if (sscanf(text, "%3[A-Za-z], %2d %3[A-Za-z] %4d %2d:%2d:%2d GMT%n", day, &tm.tm_mday,
		    month, &tm.tm_year, &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &end) != 7 ||
		!end || text[end] || strlen(month) != 3)
		return -EINVAL;
	found = strstr(months, month);
	if (!found || (found - months) % 3 || strpbrk(text, "-+"))
		return -EINVAL;
	tm.tm_mon = (int)(found - months) / 3;
	tm.tm_year -= 1900;
	return notice_time(&tm, ret_us);
}

/* The address for a host, or NULL if it is a name. */
static const char *endpoint_address(const char *host, char *copy, size_t size)
{
	static const char *const known[] = { "metadata.google.internal",
		"metadata.google.internal.", "metadata" };
	struct in_addr v4;
	struct in6_addr v6;
	size_t n = strlen(host);

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcasecmp(host, known[i]))
			return "169.254.169.254";
	if (!strcasecmp(host, "localhost"))
		return "127.0.0.1";
	if (inet_pton(AF_INET, host, &v4) == 1)
		return host;
	if (n < 3 || n >= size || host[0] != '[' || host[n - 1] != ']')
		return NULL;
	memcpy(copy, host + 1, n - 2);
	copy[n - 2] = '\0';
	return inet_pton(AF_INET6, copy, &v6) == 1 ? host : NULL;
}

static bool endpoint_port(const char *text)
{
	char *end;
	long n;

	if (!isdigit((unsigned char)*text))
		return false;
	n = strtol(text, &end, 10);
	return !*end && n > 0 && n < 65536 && end - text <= 5;
}

int notice_endpoint(const char *text, char *ret, size_t size, struct error *err)
{
	const char *s = !strncasecmp(text, "http://", 7) ? text + 7 : text, *address, *colon;
	char host[128], copy[128];
	size_t n = strlen(s);

	while (n && s[n - 1] == '/')
		n--;
	if (!n || n >= sizeof(host))
		goto bad;
	memcpy(host, s, n);
	host[n] = '\0';
	colon = strrchr(host, ':');
	/* A colon inside brackets belongs to the address. */
	if (colon && strchr(colon, ']'))
		colon = NULL;
	if (colon) {
		if (!endpoint_port(colon + 1))
			goto bad;
		host[colon - host] = '\0';
	}
	address = endpoint_address(host, copy, sizeof(copy));
	if (!address || snprintf(ret, size, "http://%s%s%s", address, colon ? ":" : "",
				colon ? colon + 1 : "") >= (int)size)
		goto bad;
	return 0;
bad:
	return error_set(err, -EINVAL,
		"expected http:// with an address of digits and perhaps a port, got '%s'", text);
}
