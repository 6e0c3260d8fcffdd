/* SPDX-License-Identifier: Apache-2.0 */
#include "client/launch/table.h"
#include "common/base/quote.h"
#include "common/base/scan.h"
#include "common/text/duration.h"
#include "common/text/endpoint.h"
#include "common/text/json.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

/*
 * torchrun's --rdzv-conf, whose keys belong to its backends: those that have a meaning here become
 * keys of the section `rendezvous`, others are checked or warned of.
 */

struct conf {
	struct launch_state *s;
	int hosts;
	int64_t interval_ms; /* of keep-alives; torchrun's default */
	int64_t attempts;
	bool lease; /* one of these two is given */
	bool etcd;
};

static int conf_expected(
	const struct conf *c, const char *key, const char *expected, const char *value)
{
	char q[QUOTE_MAX];

	return launch_refuse(c->s, OPT_RDZV_CONF, "%s: expected %s, got %s", key, expected,
		quote_text(value, q));
}

static int conf_duration(
	const struct conf *c, const char *key, const char *value, int64_t least, int64_t *ret_ms)
{
	struct error err = { 0 };

	if (duration_parse_seconds(value, NULL, ret_ms, &err) < 0)
		return launch_refuse(c->s, OPT_RDZV_CONF, "%s: %s", key, err.text);
	if (*ret_ms < least)
		return conf_expected(c, key, "a time greater than 0", value);
	return 0;
}

static int set_duration(const struct conf *c, const char *key, int64_t ms)
{
	char buf[DURATION_TEXT_MAX];

	return launch_set(c->s, "rendezvous", key, json_string(duration_format(ms, buf)));
}

static int apply_join_timeout(struct conf *c, const char *key, const char *value)
{
	int64_t ms;
	int r = conf_duration(c, key, value, 1, &ms);

	return r < 0 ? r : set_duration(c, "join_timeout", ms);
}

static int apply_last_call(struct conf *c, const char *key, const char *value)
{
	int64_t ms;
	int r = conf_duration(c, key, value, 0, &ms);

	return r < 0 ? r : set_duration(c, "last_call", ms);
}

static int apply_interval(struct conf *c, const char *key, const char *value)
{
	c->lease = true;
	return conf_duration(c, key, value, 1, &c->interval_ms);
}

static int apply_attempts(struct conf *c, const char *key, const char *value)
{
	enum { ATTEMPTS_MAX = 1000000 };
	uint64_t n;

	if (scan_whole(value, ATTEMPTS_MAX, &n) < 0 || !n)
		return conf_expected(c, key, "a number from 1 to 1000000", value);
	c->lease = true;
	c->attempts = (int64_t)n;
	return 0;
}

/* Any host that can listen at the endpoint leads, so that only "no" has an effect. */
static int apply_is_host(struct conf *c, const char *key, const char *value)
{
	static const char *const words[][5] = { { "0", "false", "f", "no", "n" },
		{ "1", "true", "t", "yes", "y" } };

	for (int yes = 0; yes < 2; yes++)
		for (int i = 0; i < 5; i++)
			if (!strcasecmp(value, words[yes][i]))
				return yes ? 0
					   : launch_set(c->s, "rendezvous", "lead",
						     json_string("never"));
	return conf_expected(c, key, "true or false", value);
}

/* --node-rank comes later and holds. */
static int apply_rank(struct conf *c, const char *key, const char *value)
{
	char expected[48];
	uint64_t rank;

	snprintf(expected, sizeof(expected), "a rank from 0 to %d", c->hosts - 1);
	if (scan_whole(value, (uint64_t)c->hosts - 1, &rank) < 0)
		return conf_expected(c, key, expected, value);
	return launch_set(c->s, "rendezvous", "node_rank", json_integer((json_int_t)rank));
}

/* Keys of torchrun's etcd backends. */
static int apply_tls(struct conf *c, const char *key, const char *value)
{
	const char *name = !strcmp(key, "ssl_cert")	  ? "cert"
			   : !strcmp(key, "ssl_cert_key") ? "key"
							  : "ca";
	json_t *section = json_object_get(c->s->doc, "rendezvous");
	json_t *tls = json_deep_copy(json_object_get(section, "tls"));

	if (!json_is_object(tls)) {
		json_decref(tls);
		tls = json_object();
	}
	json_put(tls, name, launch_text_json(c->s, OPT_RDZV_CONF, value));
	return launch_set(c->s, "rendezvous", "tls", tls);
}

static int apply_prefix(struct conf *c, const char *key, const char *value)
{
	return launch_set(
		c->s, "rendezvous", "prefix", launch_text_json(c->s, OPT_RDZV_CONF, value));
}

/* Puts the scheme before endpoints that have none. */
static int apply_protocol(struct conf *c, const char *key, const char *value)
{
	const json_t *section = json_object_get(c->s->doc, "rendezvous");
	const char *endpoints = json_get_string(section, "endpoints", "");
	_cleanup_free_ char *copy = strdup(endpoints), *all = strdup("");
	char *rest = copy, *one;

	if (strcmp(value, "http") != 0 && strcmp(value, "https") != 0)
		return conf_expected(c, key, "http or https", value);
	while (copy && all && (one = strsep(&rest, ",")) != NULL && *one) {
		char *longer = NULL;

		if (asprintf(&longer, "%s%s%s%s%s", all, *all ? "," : "",
			    endpoint_without_scheme(one) == one ? value : "",
			    endpoint_without_scheme(one) == one ? "://" : "", one) < 0)
			longer = NULL;
		free(all);
		all = longer;
	}
	if (!copy || !all)
		return launch_no_memory(c->s);
	return *all ? launch_set(c->s, "rendezvous", "endpoints", json_string(all)) : 0;
}

static int check_duration(struct conf *c, const char *key, const char *value)
{
	int64_t ms;

	return conf_duration(c, key, value, 0, &ms);
}

static int check_store_type(struct conf *c, const char *key, const char *value)
{
	return strcmp(value, "tcp") ? conf_expected(c, key, "tcp", value) : 0;
}

static const struct {
	const char *name;
	int (*apply)(struct conf *c, const char *key, const char *value);
	bool etcd; /* unknown to other backends */
} keys[] = {
	{ "join_timeout", apply_join_timeout, false },
	{ "timeout", apply_join_timeout, false },
	{ "last_call_timeout", apply_last_call, false },
	{ "keep_alive_interval", apply_interval, false },
	{ "keep_alive_max_attempt", apply_attempts, false },
	{ "is_host", apply_is_host, false },
	{ "rank", apply_rank, false },
	{ "protocol", apply_protocol, true },
	{ "ssl_cert", apply_tls, true },
	{ "ssl_cert_key", apply_tls, true },
	{ "ca_cert", apply_tls, true },
	{ "etcd_prefix", apply_prefix, true },
	/* without effect */
	{ "close_timeout", check_duration, false },
	{ "heartbeat_timeout", check_duration, false },
	{ "read_timeout", check_duration, false },
	{ "store_type", check_store_type, false },
};

static int apply_key(struct conf *c, const char *key, const char *value)
{
	char origin[LAUNCH_PET_MAX], q[QUOTE_MAX];

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!strcmp(key, keys[i].name) && (!keys[i].etcd || c->etcd))
			return keys[i].apply(c, key, value);
	return launch_warn(c->s, "%s: the unknown key %s has no effect",
		launch_origin(c->s, OPT_RDZV_CONF, origin), quote_text(key, q));
}

static int set_lease(const struct conf *c)
{
	enum { LEAST_MS = 100 };
	char got[DURATION_TEXT_MAX];
	int64_t ms;

	if (!c->lease)
		return 0;
	if (__builtin_mul_overflow(c->interval_ms, c->attempts, &ms) || ms > DURATION_MAX_MS)
		return launch_refuse(c->s, OPT_RDZV_CONF,
			"keep_alive_interval times keep_alive_max_attempt: expected at most 100 "
			"years");
	if (ms < LEAST_MS)
		return launch_refuse(c->s, OPT_RDZV_CONF,
			"keep_alive_interval times keep_alive_max_attempt: expected at least "
			"100ms, got %s",
			duration_format(ms, got));
	return set_duration(c, "lease", ms);
}

/* Cuts spaces from both ends, as torchrun does. */
static char *strip_spaces(char *text)
{
	size_t len;

	text += strspn(text, " ");
	len = strlen(text);
	while (len && text[len - 1] == ' ')
		text[--len] = '\0';
	return text;
}

int launch_rdzv_conf(struct launch_state *s, enum launch_id id, const char *text)
{
	const char *p = text;

	while (*p) {
		size_t n = strcspn(p, ",");
		const char *equals = memchr(p, '=', n);

		/* torchrun refuses an empty key or value as well. */
		if (!equals || equals == p || equals == p + n - 1)
			return launch_expected(s, id, "KEY=VALUE,...", text);
		p += n;
		if (*p && !*++p)
			return launch_expected(s, id, "KEY=VALUE,...", text);
	}
	return 0;
}

int launch_conf(struct launch_state *s, int hosts)
{
	const char *backend = json_get_string(json_object_get(s->doc, "rendezvous"), "backend", "");
	struct conf c = { .s = s,
		.hosts = hosts,
		.interval_ms = 5000,
		.attempts = 3,
		.etcd = !strncmp(backend, "etcd", 4) };
	const char *text = s->values[OPT_RDZV_CONF];
	_cleanup_free_ char *copy = strdup(text ? text : "");
	char *rest = copy, *word;
	int r = 0;

	if (!copy)
		return launch_no_memory(s);
	while (r == 0 && (word = strsep(&rest, ",")) != NULL && *word) {
		char *value = strchr(word, '=');

		*value++ = '\0';
		r = apply_key(&c, strip_spaces(word), strip_spaces(value));
	}
	return r < 0 ? r : set_lease(&c);
}
