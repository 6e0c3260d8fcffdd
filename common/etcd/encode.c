/* SPDX-License-Identifier: Apache-2.0 */
#include "common/etcd/codec.h"

#include <errno.h>
#include <string.h>

static void put_text(struct json_writer *w, const char *text)
{
	json_write(w, text, strlen(text));
}

static void put_number(struct json_writer *w, const char *before, int64_t n)
{
	put_text(w, before);
	put_text(w, "\"");
	json_write_int(w, n);
	put_text(w, "\"");
}

static void put_bytes(struct json_writer *w, const char *before, const void *data, size_t len)
{
	put_text(w, before);
	json_write_base64(w, data, len);
}

/* etcd has no empty key: a NUL byte as the key means the first key, as the end that of all keys. */
static void put_key(struct json_writer *w, const char *before, const char *key)
{
	put_bytes(w, before, key, *key ? strlen(key) : 1);
}

static void put_span(struct json_writer *w, const char *key, const char *end)
{
	put_key(w, "\"key\":", key);
	if (end)
		put_key(w, ",\"range_end\":", end);
}

static int put_compare(struct json_writer *w, const struct etcd_compare *c)
{
	if (!*c->key || c->mod_revision < 0)
		return -EINVAL;
	put_key(w, "{\"key\":", c->key);
	put_number(
		w, ",\"target\":\"MOD\",\"result\":\"EQUAL\",\"mod_revision\":", c->mod_revision);
	put_text(w, "}");
	return 0;
}

static int put_op(struct json_writer *w, const struct etcd_op *o)
{
	if (o->kind != ETCD_PUT && !*o->key && !o->end)
		return -EINVAL;
	switch (o->kind) {
	case ETCD_PUT:
		if (!*o->key || o->end || o->lease < 0)
			return -EINVAL;
		if (o->len > ETCD_REQUEST_MAX)
			return -EMSGSIZE;
		put_key(w, "{\"request_put\":{\"key\":", o->key);
		put_bytes(w, ",\"value\":", o->value, o->len);
		if (o->lease)
			put_number(w, ",\"lease\":", o->lease);
		break;
	case ETCD_DELETE:
		put_text(w, "{\"request_delete_range\":{");
		put_span(w, o->key, o->end);
		break;
	case ETCD_GET:
		if (o->limit < 0)
			return -EINVAL;
		put_text(w, "{\"request_range\":{");
		put_span(w, o->key, o->end);
		if (o->limit)
			put_number(w, ",\"limit\":", o->limit);
		break;
	}
	put_text(w, "}}");
	return w->len > ETCD_REQUEST_MAX ? -EMSGSIZE : 0;
}

static int put_ops(struct json_writer *w, const struct etcd_op *ops, size_t n, unsigned char *kinds)
{
	int r;

	for (size_t i = 0; i < n; i++) {
		if (i)
			put_text(w, ",");
		r = put_op(w, &ops[i]);
		if (r < 0)
			return r;
		kinds[i] = (unsigned char)ops[i].kind;
	}
	return 0;
}

int etcd_encode_txn(struct json_writer *w, const struct etcd_txn *t, struct etcd_shape *ret)
{
	int r = 0;

	if (t->n_compares > ETCD_OPS_MAX || t->n_then > ETCD_OPS_MAX || t->n_else > ETCD_OPS_MAX)
		return -E2BIG;
	ret->n_then = t->n_then;
	ret->n_else = t->n_else;
	put_text(w, "{\"compare\":[");
	for (size_t i = 0; i < t->n_compares && !r; i++) {
		if (i)
			put_text(w, ",");
		r = put_compare(w, &t->compares[i]);
	}
	put_text(w, "],\"success\":[");
	if (!r)
		r = put_ops(w, t->then_ops, t->n_then, ret->kinds);
	put_text(w, "],\"failure\":[");
	if (!r)
		r = put_ops(w, t->else_ops, t->n_else, ret->kinds + t->n_then);
	put_text(w, "]}");
	return r < 0 ? r : w->len > ETCD_REQUEST_MAX ? -EMSGSIZE : 0;
}

int etcd_encode_keep_alive(struct json_writer *w, const int64_t *leases, size_t n)
{
	if (!n)
		return -EINVAL;
	if (n > ETCD_OPS_MAX)
		return -E2BIG;
	for (size_t i = 0; i < n; i++) {
		if (leases[i] <= 0)
			return -EINVAL;
		put_number(w, "{\"ID\":", leases[i]);
		put_text(w, "}");
	}
	return 0;
}

int etcd_encode_watch(struct json_writer *w, const char *key, const char *end, int64_t revision)
{
	if (revision < 1 || (!*key && !end))
		return -EINVAL;
	put_text(w, "{\"create_request\":{");
	put_span(w, key, end);
	put_number(w, ",\"start_revision\":", revision);
	put_text(w, "}}");
	return w->len > ETCD_REQUEST_MAX ? -EMSGSIZE : 0;
}

int etcd_encode_user(struct json_writer *w, const char *user, const char *password)
{
	int r;

	put_text(w, "{\"name\":");
	r = json_write_string(w, user, strlen(user));
	put_text(w, ",\"password\":");
	if (!r)
		r = json_write_string(w, password, strlen(password));
	put_text(w, "}");
	return r < 0 ? -EINVAL : 0;
}

void etcd_encode_grant(struct json_writer *w, int64_t ttl_s)
{
	put_number(w, "{\"TTL\":", ttl_s);
	put_text(w, "}");
}

void etcd_encode_revoke(struct json_writer *w, int64_t lease)
{
	put_number(w, "{\"ID\":", lease);
	put_text(w, "}");
}

char *etcd_prefix_end(const char *prefix)
{
	char *end = strdup(prefix);
	size_t n = strlen(prefix);

	if (!end)
		return NULL;
	while (n && (unsigned char)end[n - 1] == 0xff)
		n--;
	end[n] = '\0';
	if (n)
		end[n - 1]++;
	return end;
}
