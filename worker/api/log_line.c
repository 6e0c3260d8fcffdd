/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/base/handle.h"

#include "common/text/json.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

/* The file's descriptor, opened at the first line. */
static int log_fd(struct elasticd *h)
{
	int fd = atomic_load(&h->log_fd), none = -1;

	if (fd >= 0)
		return fd;
	fd = open(h->log_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);
	if (fd < 0)
		return -errno;
	if (atomic_compare_exchange_strong(&h->log_fd, &none, fd))
		return fd;
	close(fd);
	return none;
}

static int log_fields(json_t *line, const char *fields)
{
	_cleanup_json_ json_t *more = NULL;
	struct error err;
	const char *key;
	json_t *v;
	int r;

	if (!fields)
		return 0;
	r = json_parse_object(fields, strlen(fields), 0, &more, &err);
	if (r < 0)
		return r == -ENOMEM ? fail_memory()
				    : fail(ELASTICD_INVALID_ARGUMENT, "fields: %s", err.text);
	json_object_foreach (more, key, v) {
		if (json_object_get(line, key))
			return fail(ELASTICD_INVALID_ARGUMENT,
				"fields: \"%.64s\" is a member of every line already", key);
		if (json_put(line, key, json_incref(v)) < 0)
			return fail_memory();
	}
	return 0;
}

/* With its newline; owned. */
static int log_text(const struct elasticd *h, const char *level, const char *message,
	const char *fields, char **ret, size_t *ret_len)
{
	_cleanup_json_ json_t *line = json_object();
	struct timespec now;
	int r;

	clock_gettime(CLOCK_REALTIME, &now);
	r = json_put_int(line, "time_us", now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000);
	if (!r)
		r = json_put_string(line, "level", level ? level : "info");
	if (!r)
		r = json_put_string(line, "message", message ? message : "");
	if (!r)
		r = json_put_int(line, "rank", h->who.rank);
	if (!r)
		r = json_put_int(line, "attempt", h->who.attempt);
	if (r)
		return fail_memory();
	r = log_fields(line, fields);
	if (r)
		return r;
	*ret = json_dump_text(line, ret_len);
	if (!*ret)
		return fail_memory();
	/* The text's NUL makes room for the newline. */
	(*ret)[(*ret_len)++] = '\n';
	return 0;
}

/* The whole line, on one of its own: 0, or a negative errno. */
static int log_write(struct elasticd *h, int fd, char *text, size_t len)
{
	char newline[] = "\n";
	bool cut = atomic_exchange(&h->log_cut, false);
	const struct iovec pieces[] = { { newline, cut }, { text, len } };
	ssize_t n;

	do
		n = writev(fd, pieces, 2);
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)(cut + len))
		return 0;
	/* What is there of it would be the beginning of the next. */
	if (n < 0 ? cut : n > cut)
		atomic_store(&h->log_cut, true);
	return n < 0 ? -errno : -ENOSPC;
}

int elasticd_log(struct elasticd *h, const char *level, const char *message, const char *fields)
{
	_cleanup_free_ char *text = NULL;
	size_t len = 0;
	int r;

	r = log_text(h, level, message, fields, &text, &len);
	if (r || !h->log_file)
		return r;
	r = log_fd(h);
	if (r >= 0)
		r = log_write(h, r, text, len);
	if (r == 0)
		return 0;
	return fail(r == -ENOSPC || r == -EDQUOT ? ELASTICD_RESOURCE_EXHAUSTED : ELASTICD_UNKNOWN,
		"%s: %s", h->log_file, strerror(-r));
}
