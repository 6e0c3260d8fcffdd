/* SPDX-License-Identifier: Apache-2.0 */
#include "common/varlink/message.h"

#include "common/text/json.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

enum { ROOM_KEPT = 1 << 20 };

void varlink_buffer_fini(struct varlink_buffer *b)
{
	free(b->data);
	*b = (struct varlink_buffer){ .data = NULL };
}

size_t varlink_buffer_len(const struct varlink_buffer *b)
{
	return b->end - b->begin;
}

size_t varlink_buffer_held(const struct varlink_buffer *b)
{
	return b->end;
}

/* Frees memory that is not needed any more. */
static void shrink_buffer(struct varlink_buffer *b)
{
	size_t room = b->room;
	char *less;

	while (room > ROOM_KEPT && b->end < room / 2)
		room /= 2;
	less = room < b->room ? realloc(b->data, room) : NULL;
	if (!less)
		return;
	b->data = less;
	b->room = room;
}

void varlink_buffer_cut(struct varlink_buffer *b, size_t len)
{
	b->end = b->begin + len;
	shrink_buffer(b);
	if (!len)
		varlink_buffer_fini(b);
}

/* Room for len bytes behind the others; NULL without memory. */
static char *reserve_bytes(struct varlink_buffer *b, size_t len)
{
	size_t room = b->room ? b->room : 512;
	char *grown;

	/* Moves bytes only if at least as many were sent: a slow reader costs no copying. */
	if (b->room - b->end < len && b->begin > b->end - b->begin) {
		memmove(b->data, b->data + b->begin, b->end - b->begin);
		b->end -= b->begin;
		b->begin = 0;
		shrink_buffer(b);
	}
	if (!b->room || b->room - b->end < len) {
		while (room - b->end < len)
			room *= 2;
		grown = realloc(b->data, room);
		if (!grown)
			return NULL;
		b->data = grown;
		b->room = room;
	}
	return b->data + b->end;
}

int varlink_buffer_append(struct varlink_buffer *b, const void *data, size_t len)
{
	char *to = reserve_bytes(b, len);

	if (!to)
		return -ENOMEM;
	memcpy(to, data, len);
	b->end += len;
	return 0;
}

int varlink_buffer_move(struct varlink_buffer *b, struct varlink_buffer *from)
{
	int r = 0;

	if (b->begin == b->end) {
		struct varlink_buffer empty = *b;

		*b = *from;
		*from = empty;
	} else if (from->data) {
		r = varlink_buffer_append(b, from->data + from->begin, varlink_buffer_len(from));
	}
	if (r == 0)
		varlink_buffer_fini(from);
	return r;
}

int varlink_buffer_send(struct varlink_buffer *b, int fd, size_t most)
{
	size_t end = b->end - b->begin > most ? b->begin + most : b->end;

	while (b->begin < end) {
		ssize_t n =
			send(fd, b->data + b->begin, end - b->begin, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n >= 0)
			b->begin += n;
		else if (errno == EAGAIN)
			return 1;
		else if (errno != EINTR)
			return -errno;
	}
	if (b->begin == b->end)
		varlink_buffer_fini(b);
	return 0;
}

static int append_text(struct varlink_buffer *b, const char *text)
{
	return varlink_buffer_append(b, text, strlen(text));
}

static int on_dump(const char *text, size_t len, void *data)
{
	return varlink_buffer_append(data, text, len);
}

static int append_parameters(struct varlink_buffer *b, const struct varlink_out *out)
{
	if (out->text)
		return varlink_buffer_append(b, out->text, out->text_len);
	if (!out->parameters)
		return append_text(b, "{}");
	return json_dump_callback(out->parameters, on_dump, b, JSON_COMPACT) < 0 ? -ENOMEM : 0;
}

/* A final answer from ready text, which is the most frequent message. */
static int append_plain(struct varlink_buffer *b, const struct varlink_out *out)
{
	static const char before[] = "{\"parameters\":";
	char *to = reserve_bytes(b, sizeof(before) + out->text_len + 1);

	if (!to)
		return -ENOMEM;
	to = mempcpy(to, before, sizeof(before) - 1);
	to = mempcpy(to, out->text, out->text_len);
	memcpy(to, "}", 2);
	b->end += sizeof(before) + out->text_len + 1;
	return 0;
}

static int append_message(struct varlink_buffer *b, const struct varlink_out *out)
{
	int r;

	if (out->text && !out->method && !out->error && !out->more && !out->oneway &&
		!out->continues)
		return append_plain(b, out);
	r = append_text(b, "{");
	if (r == 0 && (out->method || out->error)) {
		r = append_text(b, out->method ? "\"method\":\"" : "\"error\":\"");
		if (r == 0)
			r = append_text(b, out->method ? out->method : out->error);
		if (r == 0)
			r = append_text(b, "\",");
	}
	if (r == 0)
		r = append_text(b, "\"parameters\":");
	if (r == 0)
		r = append_parameters(b, out);
	if (r == 0 && out->more)
		r = append_text(b, ",\"more\":true");
	if (r == 0 && out->oneway)
		r = append_text(b, ",\"oneway\":true");
	if (r == 0 && out->continues)
		r = append_text(b, ",\"continues\":true");
	/* The text's NUL ends the message. */
	return r < 0 ? r : varlink_buffer_append(b, "}", 2);
}

int varlink_buffer_message(
	struct varlink_buffer *b, const struct varlink_out *out, size_t max_bytes)
{
	size_t before = varlink_buffer_len(b);
	int r = append_message(b, out);

	if (r == 0 && varlink_buffer_len(b) - before - 1 > max_bytes)
		r = -EMSGSIZE;
	if (r < 0)
		varlink_buffer_cut(b, before);
	return r;
}

int varlink_in_parse(const char *text, size_t len, struct varlink_in *ret, struct error *err)
{
	struct varlink_in in = { .message = NULL };
	json_t *error;
	int r = json_parse_object(text, len, &in.message, err);

	if (r == -EINVAL && err)
		err->code = -EBADMSG;
	if (r < 0)
		return r == -EINVAL ? -EBADMSG : r;
	in.parameters = json_object_get(in.message, "parameters");
	if (!in.parameters || json_is_null(in.parameters)) {
		if (json_put(in.message, "parameters", json_object()) < 0) {
			varlink_in_fini(&in);
			return error_set(err, -ENOMEM, "out of memory");
		}
		in.parameters = json_object_get(in.message, "parameters");
	}
	error = json_object_get(in.message, "error");
	in.error = json_string_value(error);
	in.continues = json_get_bool(in.message, "continues", false);
	if (!json_is_object(in.parameters) || (error && !json_is_null(error) && !in.error)) {
		varlink_in_fini(&in);
		return error_set(err, -EBADMSG, "an answer's members have wrong types");
	}
	*ret = in;
	return 0;
}

void varlink_in_fini(struct varlink_in *in)
{
	json_decref(in->message);
	*in = (struct varlink_in){ .message = NULL };
}
