/* SPDX-License-Identifier: Apache-2.0 */
#include "common/varlink/sync.h"

#include "common/base/clock.h"
#include "common/text/json.h"
#include "common/varlink/frame.h"
#include "common/varlink/message.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

struct varlink_sync {
	int fd;
	struct varlink_frame in;
	char method[96]; /* of the last call */
	int error;	 /* why reading ended; reported when all before was returned */
};

int varlink_sync_new_fd(int fd, struct varlink_sync **ret, struct error *err)
{
	struct varlink_sync *c = calloc(1, sizeof(*c));

	if (!c) {
		close(fd);
		return error_set(err, -ENOMEM, "out of memory");
	}
	c->fd = fd;
	varlink_frame_init(&c->in, VARLINK_ANSWER_MAX);
	*ret = c;
	return 0;
}

struct varlink_sync *varlink_sync_free(struct varlink_sync *c)
{
	if (!c)
		return NULL;
	close_fd(c->fd);
	varlink_frame_fini(&c->in);
	free(c);
	return NULL;
}

const char *varlink_sync_method(const struct varlink_sync *c)
{
	return c->method;
}

int varlink_sync_fd(const struct varlink_sync *c)
{
	return c->fd;
}

static int send_all(struct varlink_sync *c, const char *data, size_t len)
{
	while (len) {
		ssize_t n = send(c->fd, data, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		/* The service may have sent the reason before it closed: varlink_sync_receive()
		 * returns it. */
		if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
			return 0;
		if (n < 0)
			return -errno;
		data += n;
		len -= n;
	}
	return 0;
}

int varlink_sync_send(struct varlink_sync *c, const char *method, json_t *parameters, bool more,
	struct error *err)
{
	_cleanup_json_ json_t *owned = parameters;
	_cleanup_(varlink_buffer_fini) struct varlink_buffer b = { .data = NULL };
	struct varlink_out out = { .method = method, .parameters = owned, .more = more };
	int r = varlink_buffer_message(&b, &out, VARLINK_ANSWER_MAX);

	snprintf(c->method, sizeof(c->method), "%s", method);
	if (r == 0)
		r = send_all(c, b.data + b.begin, varlink_buffer_len(&b));
	return r < 0 ? error_set(err, r, "cannot call %s: %s", method, strerror(-r)) : 0;
}

/* Reads once. Returns 0, -EINTR, or -EAGAIN with MSG_DONTWAIT; keeps the end in error. */
static int read_more(struct varlink_sync *c, int flags)
{
	char data[32768];
	ssize_t n = recv(c->fd, data, sizeof(data), flags);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return -errno;
	if (n < 0)
		c->error = -errno;
	else if (n == 0)
		c->error = -ECONNRESET;
	else
		c->error = varlink_frame_feed(&c->in, data, n);
	return 0;
}

/* Writes "NotFound: job x" from a name and its parameters; prefers a message among them. */
static void describe_error(const char *name, const json_t *parameters, struct error *err)
{
	const char *dot = strrchr(name, '.');
	const char *message = json_get_string(parameters, "message", NULL);
	char text[512];
	size_t n;
	const char *key;
	json_t *v;

	if (message) {
		error_set(err, -EREMOTEIO, "%s", message);
		return;
	}
	n = snprintf(text, sizeof(text), "%s", dot ? dot + 1 : name);
	json_object_foreach ((json_t *)parameters, key, v) {
		_cleanup_free_ char *dump = json_is_string(v) ? NULL : json_dump_text(v, NULL);
		const char *value = json_is_string(v) ? json_string_value(v) : dump;

		if (n < sizeof(text) && value)
			n += snprintf(text + n, sizeof(text) - n, "%s %s %s",
				strchr(text, ':') ? "," : ":", key, value);
	}
	error_set(err, -EREMOTEIO, "%s", text);
}

static int take_answer(const char *text, size_t len, json_t **ret_parameters, char **ret_error,
	bool *ret_continues, struct error *err)
{
	_cleanup_(varlink_in_fini) struct varlink_in in = { .message = NULL };
	_cleanup_free_ char *name = NULL;
	int r = varlink_in_parse(text, len, &in, err);

	if (r < 0) {
		error_prefix(err, "the service's answer is not understood");
		return r;
	}
	if (in.error) {
		name = strdup(in.error);
		if (!name)
			return error_set(err, -ENOMEM, "out of memory");
		describe_error(in.error, in.parameters, err);
	}
	*ret_parameters = json_incref(in.parameters);
	*ret_continues = in.continues && !name;
	r = name ? -EREMOTEIO : 0;
	*ret_error = TAKE_PTR(name);
	return r;
}

int varlink_sync_receive(struct varlink_sync *c, json_t **ret_parameters, char **ret_error,
	bool *ret_continues, struct error *err)
{
	char *text;
	size_t len;
	int r;

	for (;;) {
		r = varlink_frame_next(&c->in, &text, &len);
		if (r > 0)
			return take_answer(
				text, len, ret_parameters, ret_error, ret_continues, err);
		if (r < 0)
			return error_set(err, r, "the service's answer is longer than %d bytes",
				VARLINK_ANSWER_MAX);
		if (c->error == -ECONNRESET)
			return error_set(err, c->error, "the service closed the connection");
		if (c->error)
			return error_set(err, c->error, "cannot read: %s", strerror(-c->error));
		r = read_more(c, 0);
		if (r < 0)
			return error_set(err, r, "%s", strerror(-r));
	}
}

int varlink_sync_wait(struct varlink_sync *c, int timeout_ms)
{
	int64_t end = (int64_t)monotonic_ms() + timeout_ms;
	int r;

	for (;;) {
		struct pollfd p = { .fd = c->fd, .events = POLLIN };
		int64_t left = timeout_ms < 0 ? -1 : end - (int64_t)monotonic_ms();

		if (varlink_frame_ready(&c->in) || c->error)
			return 1;
		r = poll(&p, 1, timeout_ms >= 0 && left < 0 ? 0 : (int)left);
		if (r < 0)
			return -errno;
		if (r > 0) {
			r = read_more(c, MSG_DONTWAIT);
			if (r < 0 && r != -EAGAIN)
				return r;
		} else if (timeout_ms >= 0 && (int64_t)monotonic_ms() >= end) {
			return 0;
		}
	}
}
