/* SPDX-License-Identifier: Apache-2.0 */
#include "common/etcd/codec.h"
#include "common/etcd/split.h"

#include "common/base/printable.h"
#include "common/text/base64.h"
#include "common/text/json.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

void etcd_decoded_fini(struct etcd_decoded *d)
{
	json_decref(d->tree);
	free(d->results);
	free(d->entries);
	free(d->events);
	free(d->leases);
	free(d->token);
	free(d->bytes);
	*d = (struct etcd_decoded){ .tree = NULL };
}

/* Parses text into ret->tree, and makes room for all bytes that can be in it. */
static int decode_begin(const char *text, size_t len, struct etcd_decoded *ret)
{
	int r = json_parse_object(text, len, &ret->tree, NULL);

	if (r < 0)
		return r == -ENOMEM				? r
		       : json_units(text, len) > JSON_UNITS_MAX ? -EMSGSIZE
								: -EBADMSG;
	/* Four characters and two quotes are at most three bytes and a NUL. */
	ret->bytes = malloc(len + 1);
	return ret->bytes ? 0 : -ENOMEM;
}

/* A number below 2^64, 0 where it is left out. */
static int decode_unsigned(const json_t *obj, const char *key, uint64_t *ret)
{
	const json_t *v = json_object_get(obj, key);
	const char *text = json_string_value(v);
	char *end;

	*ret = 0;
	if (!v)
		return 0;
	if (json_is_integer(v) && json_integer_value(v) >= 0) {
		*ret = (uint64_t)json_integer_value(v);
		return 0;
	}
	if (!text || *text < '0' || *text > '9' || json_string_length(v) != strlen(text))
		return -EBADMSG;
	errno = 0;
	*ret = strtoull(text, &end, 10);
	return errno || *end ? -EBADMSG : 0;
}

/* All of etcd's signed numbers that are read here are 0 or more. */
static int decode_number(const json_t *obj, const char *key, int64_t *ret)
{
	uint64_t n;
	int r = decode_unsigned(obj, key, &n);

	if (r < 0 || n > INT64_MAX)
		return -EBADMSG;
	*ret = (int64_t)n;
	return 0;
}

static int decode_bool(const json_t *obj, const char *key, bool *ret)
{
	const json_t *v = json_object_get(obj, key);

	*ret = json_is_true(v);
	return !v || json_is_boolean(v) ? 0 : -EBADMSG;
}

static int decode_bytes(struct etcd_decoded *d, const json_t *obj, const char *key,
	const void **ret, size_t *ret_len)
{
	const json_t *v = json_object_get(obj, key);
	char *out = d->bytes + d->n_bytes;

	*ret = "";
	*ret_len = 0;
	if (!v)
		return 0;
	if (!json_is_string(v) ||
		base64_decode_into(json_string_value(v), json_string_length(v), out, ret_len) < 0)
		return -EBADMSG;
	*ret = out;
	d->n_bytes += *ret_len + 1;
	return 0;
}

static int decode_header(const json_t *obj, struct etcd_answer *a)
{
	const json_t *header = json_object_get(obj, "header");
	int r = decode_unsigned(header, "cluster_id", &a->cluster);

	return r ? r : decode_number(header, "revision", &a->revision);
}

static int decode_entry(struct etcd_decoded *d, const json_t *kv, struct etcd_entry *e)
{
	const void *key;
	size_t key_len;
	int r;

	if (!json_is_object(kv))
		return -EBADMSG;
	r = decode_bytes(d, kv, "key", &key, &key_len);
	e->key = key;
	if (!r)
		r = decode_bytes(d, kv, "value", &e->value, &e->len);
	if (!r)
		r = decode_number(kv, "mod_revision", &e->mod_revision);
	if (!r)
		r = decode_number(kv, "lease", &e->lease);
	return r;
}

/* --- Transactions --- */

static int decode_range(struct etcd_decoded *d, const json_t *range, struct etcd_result *ret)
{
	const json_t *kvs = json_object_get(range, "kvs");
	size_t n = json_array_size(kvs);
	int r = decode_number(range, "count", &ret->count);

	if (kvs && !json_is_array(kvs))
		return -EBADMSG;
	ret->entries = d->entries + d->n_entries;
	ret->n = n;
	for (size_t i = 0; i < n && !r; i++)
		r = decode_entry(d, json_array_get(kvs, i), &d->entries[d->n_entries++]);
	return r;
}

static int decode_result(
	struct etcd_decoded *d, const json_t *response, int kind, struct etcd_result *ret)
{
	static const char *const members[] = {
		[ETCD_PUT] = "response_put",
		[ETCD_DELETE] = "response_delete_range",
		[ETCD_GET] = "response_range",
	};
	const json_t *body = json_get_object(response, members[kind]);

	if (!body)
		return -EBADMSG;
	if (kind == ETCD_GET)
		return decode_range(d, body, ret);
	return kind == ETCD_DELETE ? decode_number(body, "deleted", &ret->count) : 0;
}

static size_t count_entries(const json_t *responses)
{
	const json_t *response;
	size_t i, n = 0;

	json_array_foreach (responses, i, response)
		n += json_array_size(
			json_object_get(json_object_get(response, "response_range"), "kvs"));
	return n;
}

static int decode_results(struct etcd_decoded *d, const unsigned char *kinds, size_t n)
{
	const json_t *responses = json_object_get(d->tree, "responses");
	size_t entries = count_entries(responses);
	int r = 0;

	if (json_array_size(responses) != n)
		return -EBADMSG;
	d->results = calloc(n + 1, sizeof(*d->results));
	d->entries = calloc(entries + 1, sizeof(*d->entries));
	if (!d->results || !d->entries)
		return -ENOMEM;
	for (size_t i = 0; i < n && !r; i++)
		r = decode_result(d, json_array_get(responses, i), kinds[i], &d->results[i]);
	d->answer.results = d->results;
	d->answer.n_results = n;
	return r;
}

int etcd_decode_txn(
	const char *text, size_t len, const struct etcd_shape *shape, struct etcd_decoded *ret)
{
	bool held = false;
	int r = decode_begin(text, len, ret);

	if (!r)
		r = decode_header(ret->tree, &ret->answer);
	if (!r)
		r = decode_bool(ret->tree, "succeeded", &held);
	if (r < 0)
		return r;
	/* Without this check {} would be a transaction whose compares do not hold. */
	if (!ret->answer.revision)
		return -EBADMSG;
	ret->answer.succeeded = held;
	return held ? decode_results(ret, shape->kinds, shape->n_then)
		    : decode_results(ret, shape->kinds + shape->n_then, shape->n_else);
}

/* --- Leases --- */

static int make_leases(struct etcd_decoded *d, size_t n)
{
	d->leases = calloc(n, sizeof(*d->leases));
	if (!d->leases)
		return -ENOMEM;
	d->answer.leases = d->leases;
	d->answer.n_leases = n;
	return 0;
}

static int decode_lease(const json_t *obj, struct etcd_lease *ret)
{
	int r = decode_number(obj, "ID", &ret->id);

	return r ? r : decode_number(obj, "TTL", &ret->ttl_s);
}

int etcd_decode_grant(const char *text, size_t len, struct etcd_decoded *ret)
{
	int r = decode_begin(text, len, ret);

	if (!r)
		r = decode_header(ret->tree, &ret->answer);
	if (!r)
		r = make_leases(ret, 1);
	if (!r)
		r = decode_lease(ret->tree, &ret->leases[0]);
	if (!r && (!ret->leases[0].id || !ret->leases[0].ttl_s))
		r = -EBADMSG;
	return r;
}

static void decode_error(const json_t *obj, struct etcd_refusal *ret)
{
	const json_t *error = json_object_get(obj, "error");
	const char *text;
	int64_t code;

	/* In a stream the error is an object, and in 3.4 its code has another name. */
	if (json_is_object(error))
		obj = error;
	code = json_get_int(obj, "code", json_get_int(obj, "grpc_code", -1));
	text = json_get_string(obj, "message", json_get_string(obj, "error", ""));
	ret->code = code >= 0 && code <= STATUS_UNAUTHENTICATED ? (int)code : -1;
	printable_copy(ret->text, sizeof(ret->text), text);
}

/* A message of a stream has a result, or an error. */
static int decode_streamed(const char *text, size_t len, struct etcd_decoded *ret, json_t **result)
{
	int r = decode_begin(text, len, ret);

	if (r < 0)
		return r;
	*result = json_get_object(ret->tree, "result");
	if (*result)
		return decode_header(*result, &ret->answer);
	if (!json_object_get(ret->tree, "error"))
		return -EBADMSG;
	decode_error(ret->tree, &ret->change.refusal);
	return -EREMOTEIO;
}

static int decode_kept(
	const char *text, size_t len, int64_t id, struct etcd_lease *to, struct etcd_decoded *all)
{
	_cleanup_(etcd_decoded_fini) struct etcd_decoded one = { 0 };
	json_t *result;
	int r = decode_streamed(text, len, &one, &result);

	if (r == -EREMOTEIO)
		all->change.refusal = one.change.refusal;
	if (!r)
		r = decode_lease(result, to);
	if (!r && to->id != id)
		r = -EBADMSG;
	all->answer.cluster = one.answer.cluster;
	all->answer.revision = one.answer.revision;
	return r;
}

int etcd_decode_keep_alive(
	const char *text, size_t len, const int64_t *leases, size_t n, struct etcd_decoded *ret)
{
	int r = make_leases(ret, n);

	for (size_t i = 0; i < n && !r; i++) {
		struct etcd_split s = { 0 };
		ssize_t taken = etcd_split(&s, text, len);

		if (taken <= 0)
			return -EBADMSG;
		r = decode_kept(text, (size_t)taken, leases[i], &ret->leases[i], ret);
		text += taken;
		len -= (size_t)taken;
	}
	return r;
}

/* --- Others --- */

int etcd_decode_revoke(const char *text, size_t len, struct etcd_decoded *ret)
{
	int r = decode_begin(text, len, ret);

	if (!r)
		r = decode_header(ret->tree, &ret->answer);
	return r || json_get_object(ret->tree, "header") ? r : -EBADMSG;
}

int etcd_decode_status(const char *text, size_t len, struct etcd_decoded *ret)
{
	const json_t *errors, *e;
	size_t i;
	int r = decode_begin(text, len, ret);

	if (!r)
		r = decode_header(ret->tree, &ret->answer);
	if (!r)
		r = decode_unsigned(ret->tree, "leader", &ret->member.leader);
	if (r < 0)
		return r;
	ret->member.version = json_get_string(ret->tree, "version", NULL);
	if (!ret->member.version)
		return -EBADMSG;
	errors = json_object_get(ret->tree, "errors");
	json_array_foreach (errors, i, e) {
		if (!json_is_string(e))
			return -EBADMSG;
		/* "memberID:1234 alarm:NOSPACE " */
		ret->member.no_space |= strstr(json_string_value(e), "alarm:NOSPACE") != NULL;
		ret->member.corrupt |= strstr(json_string_value(e), "alarm:CORRUPT") != NULL;
	}
	ret->answer.member = &ret->member;
	return 0;
}

int etcd_decode_user(const char *text, size_t len, struct etcd_decoded *ret)
{
	const char *token;
	int r = decode_begin(text, len, ret);

	if (r < 0)
		return r;
	token = json_get_string(ret->tree, "token", "");
	/* It will be part of a line in a header. */
	for (const char *c = token; *c; c++)
		if (*c <= ' ' || *c > '~')
			return -EBADMSG;
	if (!*token)
		return -EBADMSG;
	ret->token = strdup(token);
	return ret->token ? 0 : -ENOMEM;
}

static int decode_event(struct etcd_decoded *d, const json_t *event, struct etcd_event *ret)
{
	const json_t *type = json_object_get(event, "type");
	const char *name = json_string_value(type);

	/* PUT is the zero of its enumeration, and left out. */
	ret->deleted = name ? !strcmp(name, "DELETE") : json_integer_value(type) == 1;
	return decode_entry(d, json_object_get(event, "kv"), &ret->entry);
}

static int decode_events(struct etcd_decoded *d, const json_t *events)
{
	size_t n = json_array_size(events);
	int r = 0;

	if (events && !json_is_array(events))
		return -EBADMSG;
	d->events = calloc(n + 1, sizeof(*d->events));
	if (!d->events)
		return -ENOMEM;
	for (size_t i = 0; i < n && !r; i++) {
		r = decode_event(d, json_array_get(events, i), &d->events[i]);
		if (!r && (!d->events[i].entry.mod_revision || !*d->events[i].entry.key))
			r = -EBADMSG;
		if (!r && i &&
			d->events[i].entry.mod_revision < d->events[i - 1].entry.mod_revision)
			r = -EBADMSG;
	}
	d->change.events = d->events;
	d->change.n = n;
	return r;
}

/* "rpc error: code = PermissionDenied desc = etcdserver: permission denied" */
static void decode_cancel_reason(const char *reason, struct etcd_refusal *ret)
{
	const char *code = strstr(reason, "code = "), *text = strstr(reason, "desc = ");
	char name[32];

	ret->code = -1;
	if (code && sscanf(code, "code = %31[A-Za-z]", name) == 1)
		ret->code = status_from_name(name);
	printable_copy(ret->text, sizeof(ret->text), text ? text + strlen("desc = ") : reason);
}

int etcd_decode_change(const char *text, size_t len, struct etcd_decoded *ret)
{
	struct etcd_change *c = &ret->change;
	json_t *result = NULL;
	int r = decode_streamed(text, len, ret, &result);

	if (r == -EREMOTEIO) {
		c->refused = true;
		return 0;
	}
	if (!r)
		r = decode_bool(result, "created", &c->created);
	if (!r)
		r = decode_bool(result, "canceled", &c->canceled);
	if (!r)
		r = decode_number(result, "compact_revision", &c->compact_revision);
	if (!r)
		r = decode_events(ret, json_object_get(result, "events"));
	if (!r && c->canceled && !c->compact_revision) {
		c->refused = true;
		decode_cancel_reason(json_get_string(result, "cancel_reason", ""), &c->refusal);
	}
	return r;
}

void etcd_decode_refusal(const char *text, size_t len, struct etcd_refusal *ret)
{
	_cleanup_json_ json_t *tree = NULL;
	char plain[sizeof(ret->text)];
	size_t n = len < sizeof(plain) - 1 ? len : sizeof(plain) - 1;

	*ret = (struct etcd_refusal){ .code = -1 };
	if (!json_parse_object(text, len, &tree, NULL))
		decode_error(tree, ret);
	if (ret->code >= 0)
		return;
	while (n && strchr("\r\n", text[n - 1]))
		n--;
	memcpy(plain, text, n);
	plain[n] = '\0';
	printable_copy(ret->text, sizeof(ret->text), plain);
}

void etcd_decode_version(const char *text, size_t len, char version[ETCD_VERSION_MAX])
{
	_cleanup_json_ json_t *tree = NULL;

	version[0] = '\0';
	if (!json_parse_object(text, len, &tree, NULL))
		printable_copy(version, ETCD_VERSION_MAX, json_get_string(tree, "etcdserver", ""));
}
