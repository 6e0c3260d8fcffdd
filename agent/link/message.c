/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/message.h"

#include "agent/link/link.h"

#include "common/text/decimal.h"
#include "common/text/json.h"
#include "common/varlink/peer_idl.h"
#include "common/varlink/peer_ranges.h"
#include "common/varlink/validate.h"

#include <errno.h>
#include <string.h>

#define INTERFACE "io.elasticd.Peer."

int link_message_interface(struct varlink_idl **ret)
{
	struct error err;

	return varlink_idl_parse(peer_idl, ret, &err);
}

/* Writes "name":n, and returns its length. */
static size_t put_number(char *to, const char *name, int64_t n)
{
	size_t len = strlen(name);

	memcpy(to, name, len);
	len += decimal(n, to + len);
	to[len++] = ',';
	return len;
}

/* The parameters: n, ack, and what stands in body. */
static int put_parameters(
	struct varlink_buffer *b, int64_t n, int64_t ack, const char *body, size_t len)
{
	char head[2 * (DECIMAL_MAX + 8) + 1];
	size_t used = 0;
	int r;

	head[used++] = '{';
	if (n > 0)
		used += put_number(head + used, "\"n\":", n);
	if (ack >= 0)
		used += put_number(head + used, "\"ack\":", ack);
	if (len <= 2 && used > 1) /* body is {} */
		used--;
	r = varlink_buffer_append(b, head, used);
	return r < 0 ? r : varlink_buffer_append(b, body + 1, len - 1);
}

static int put_message(struct varlink_buffer *b, const char *method, int64_t n, int64_t ack,
	const char *body, size_t len)
{
	static const char begin[] = "{\"method\":\"" INTERFACE;
	static const char middle[] = "\",\"oneway\":true,\"parameters\":";
	int r = varlink_buffer_append(b, begin, sizeof(begin) - 1);

	if (r == 0)
		r = varlink_buffer_append(b, method, strlen(method));
	if (r == 0)
		r = varlink_buffer_append(b, middle, sizeof(middle) - 1);
	if (r == 0)
		r = put_parameters(b, n, ack, body, len);
	/* The text's NUL ends the message. */
	return r < 0 ? r : varlink_buffer_append(b, "}", 2);
}

int link_message_write(struct varlink_buffer *b, const char *method, int64_t n, int64_t ack,
	const char *body, size_t len)
{
	size_t before = varlink_buffer_len(b);
	int r = put_message(b, method, n, ack, body, len);

	if (r == 0 && varlink_buffer_len(b) - before - 1 > LINK_MESSAGE_BYTES)
		r = -EMSGSIZE;
	if (r < 0)
		varlink_buffer_cut(b, before);
	return r;
}

int link_message_put(
	struct varlink_buffer *b, const char *method, int64_t n, int64_t ack, json_t *body)
{
	_cleanup_json_ json_t *owned = body;
	size_t len = 2;
	_cleanup_free_ char *text = owned ? json_dump_text(owned, &len) : strdup("{}");

	return text ? link_message_write(b, method, n, ack, text, len) : -ENOMEM;
}

int link_message_refuse(struct varlink_buffer *b, const struct error *why)
{
	size_t len = strlen(why->field);
	const char *text = why->text;
	json_t *body = json_object();
	int r = json_put_string(body, "field", len ? why->field : "message");

	/* The text begins with the field. */
	if (len && !strncmp(text, why->field, len) && !strncmp(text + len, ": ", 2))
		text += len + 2;
	if (r == 0)
		r = json_put_string(body, "why", text);
	if (r == 0)
		r = link_message_put(b, "Refuse", 0, -1, json_incref(body));
	json_decref(body);
	return r;
}

/* Peers with other minor versions may have more in these than this program knows. */
static bool may_be_newer(const char *method)
{
	return !strcmp(method, "Hello") || !strcmp(method, "Welcome") ||
	       !strcmp(method, "LastWord");
}

/* Checked first: another major version may give all else another meaning. */
static int check_major(const char *method, const json_t *parameters, struct error *err)
{
	json_t *major = json_object_get(parameters, "major");

	if (!may_be_newer(method) || !json_is_integer(major) ||
		json_integer_value(major) == LINK_MAJOR)
		return 0;
	return error_field(err, -EPROTO, "parameters.major",
		"expected version %d of io.elasticd.Peer, got %" JSON_INTEGER_FORMAT, LINK_MAJOR,
		json_integer_value(major));
}

static int check_parameters(
	const struct varlink_member *m, const json_t *parameters, struct error *err)
{
	static const char root[] = "parameters";
	int r = check_major(m->name, parameters, err);

	if (r == 0)
		r = may_be_newer(m->name) ? varlink_validate_answer(&m->type, parameters, root, err)
					  : varlink_validate(&m->type, parameters, root, err);
	if (r == 0)
		r = varlink_validate_ranges(peer_ranges, parameters, root, true, err);
	if (r < 0)
		err->code = -EPROTO;
	return r < 0 ? -EPROTO : 0;
}

static int find_method(const struct varlink_idl *idl, const json_t *message,
	const struct varlink_member **ret, struct error *err)
{
	const char *name = json_get_string(message, "method", NULL);

	if (!name)
		return error_field(err, -EPROTO, "method", "missing, expected a string");
	if (!strncmp(name, INTERFACE, strlen(INTERFACE)))
		*ret = varlink_idl_member(idl, VARLINK_METHOD, name + strlen(INTERFACE));
	if (!*ret)
		return error_field(err, -EPROTO, "method",
			"expected a method of io.elasticd.Peer, got \"%.60s\"", name);
	if (!json_get_bool(message, "oneway", false))
		return error_field(err, -EPROTO, "oneway", "expected true");
	return 0;
}

static int read_message(const struct varlink_idl *idl, struct link_message *m, struct error *err)
{
	const struct varlink_member *method = NULL;
	int r = find_method(idl, m->message, &method, err);

	if (r < 0)
		return r;
	m->parameters = json_object_get(m->message, "parameters");
	if (!json_is_object(m->parameters))
		return error_field(err, -EPROTO, "parameters", "expected an object");
	r = check_parameters(method, m->parameters, err);
	if (r < 0)
		return r;
	m->method = method->name;
	m->n = json_get_int(m->parameters, "n", 0);
	m->ack = json_get_int(m->parameters, "ack", -1);
	return 0;
}

int link_message_read(const struct varlink_idl *idl, const char *text, size_t len,
	struct link_message *ret, struct error *err)
{
	_cleanup_(link_message_fini) struct link_message m = { .message = NULL };
	struct error broken = { 0 };
	int r = json_parse_object(text, len, &m.message, &broken);

	if (r == -ENOMEM)
		return error_set(err, r, "out of memory");
	if (r < 0)
		return error_field(
			err, -EPROTO, "message", "expected a JSON object: %s", broken.text);
	r = read_message(idl, &m, err);
	if (r < 0)
		return r;
	*ret = m;
	m.message = NULL;
	return 0;
}

void link_message_fini(struct link_message *m)
{
	json_decref(m->message);
	*m = (struct link_message){ .message = NULL };
}

ssize_t link_last_word_text(
	const char *group, const char *agent, const char *word, char *text, size_t size)
{
	struct varlink_buffer b = { 0 };
	json_t *body = json_pack("{s:i, s:i, s:s, s:s, s:s}", "major", LINK_MAJOR, "minor",
		LINK_MINOR, "group", group, "agent", agent, "word", word);
	ssize_t len = 0;

	if (body && link_message_put(&b, "LastWord", 0, -1, body) == 0 &&
		varlink_buffer_len(&b) <= size) {
		len = (ssize_t)varlink_buffer_len(&b);
		memcpy(text, b.data + b.begin, (size_t)len);
	}
	varlink_buffer_fini(&b);
	return len;
}
