/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the worker's log.jsonl. */
#include "worker/base/failure.h"
#include "worker/base/handle.h"
#include "worker/base/process_id.h"

#include "common/text/json.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

/* The file's descriptor, opened for the first line; or a negative errno. A child of fork() opens
 * its own: where another thread opened one meanwhile, the child has its number, and may lack the
 * descriptor. */
static int log_open(struct elasticd *h)
{
	const uint64_t mine = (uint64_t)process_id() << 32;
	uint64_t seen = atomic_load(&h->log_fd);
	int fd;

	if (seen >> 32 == mine >> 32)
		return (int)(uint32_t)seen;
	fd = open(h->log_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);
	if (fd < 0)
		return -errno;
	if (atomic_compare_exchange_strong(&h->log_fd, &seen, mine | (uint32_t)fd))
		return fd;
	close(fd);
	return (int)(uint32_t)seen;
}

static enum elasticd_status log_fields(json_t *line, const char *fields)
{
	_cleanup_json_ json_t *more = NULL;
	struct error err;
	const char *key;
	json_t *v;
	int r;

	if (!fields)
		return ELASTICD_STATUS_OK;
	r = json_parse_object(fields, strlen(fields), &more, &err);
	if (r < 0)
		return r == -ENOMEM
			       ? fail_memory()
			       : fail(ELASTICD_STATUS_INVALID_ARGUMENT, "fields: %s", err.text);
	json_object_foreach (more, key, v) {
		if (json_object_get(line, key))
			return fail(ELASTICD_STATUS_INVALID_ARGUMENT,
				"fields: every line has a member \"%.64s\" already", key);
		if (json_put(line, key, json_incref(v)) < 0)
			return fail_memory();
	}
	return ELASTICD_STATUS_OK;
}

/* The line, with its newline. Owned. */
static enum elasticd_status log_text(const struct elasticd *h, const char *level,
	const char *message, const char *fields, char **ret, size_t *ret_len)
{
	_cleanup_json_ json_t *line = json_object();
	enum elasticd_status status;
	struct timespec now;
	int r;

	clock_gettime(CLOCK_REALTIME, &now);
	r = json_put_int(line, "time_us", now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000);
	if (!r)
		r = json_put_string(line, "level", level ? level : "info");
	if (!r)
		r = json_put_string(line, "message", message ? message : "");
	if (!r)
		r = json_put_int(line, "rank", h->identity.rank);
	if (!r)
		r = json_put_int(line, "attempt", h->identity.attempt);
	if (r)
		return fail_memory();
	status = log_fields(line, fields);
	if (status)
		return status;
	*ret = json_dump_text(line, ret_len);
	if (!*ret)
		return fail_memory();
	/* The newline takes the place of the text's NUL. */
	(*ret)[(*ret_len)++] = '\n';
	return ELASTICD_STATUS_OK;
}

/* Writes a whole line, and a newline first where the last line was cut. 0 or a negative errno. */
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
	/* The next line must not continue the part that was written. */
	if (n < 0 ? cut : n > cut)
		atomic_store(&h->log_cut, true);
	return n < 0 ? -errno : -ENOSPC;
}

enum elasticd_status elasticd_log(
	struct elasticd *h, const char *level, const char *message, const char *fields)
{
	_cleanup_free_ char *text = NULL;
	enum elasticd_status status;
	size_t len = 0;
	int r;

	status = log_text(h, level, message, fields, &text, &len);
	if (status || !h->log_file)
		return status;
	r = log_open(h);
	if (r >= 0)
		r = log_write(h, r, text, len);
	if (r == 0)
		return ELASTICD_STATUS_OK;
	return fail(r == -ENOSPC || r == -EDQUOT ? ELASTICD_STATUS_RESOURCE_EXHAUSTED
						 : ELASTICD_STATUS_UNKNOWN,
		"%s: %s", h->log_file, strerror(-r));
}
