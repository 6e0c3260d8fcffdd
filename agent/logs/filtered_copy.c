/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/filtered_copy.h"

#include "agent/files/file_system.h"
#include "agent/logs/dirs.h"
#include "agent/logs/line_splitter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FLUSH_BYTES (64 * 1024)

struct log_copy {
	int refs;
	int fd; /* -1 after a failure */
	char *path;
	char *const *texts;
	log_copy_fn fn;
	void *arg;
	struct lines_buf text; /* not yet written */
};

int log_copy_new(
	const char *path, char *const *texts, log_copy_fn fn, void *arg, struct log_copy **ret)
{
	_cleanup_(log_copy_unrefp) struct log_copy *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	*c = (struct log_copy){ .refs = 1, .fd = -1, .texts = texts, .fn = fn, .arg = arg };
	c->path = strdup(path);
	if (!c->path)
		return -ENOMEM;
	c->fd = log_dirs_open_append(path);
	if (c->fd < 0)
		return c->fd;
	*ret = TAKE_PTR(c);
	return 0;
}

struct log_copy *log_copy_ref(struct log_copy *c)
{
	if (c)
		c->refs++;
	return c;
}

struct log_copy *log_copy_unref(struct log_copy *c)
{
	if (!c || --c->refs > 0)
		return NULL;
	log_copy_flush(c);
	log_fs_close(c->fd);
	free(c->path);
	lines_buf_fini(&c->text);
	free(c);
	return NULL;
}

void log_copy_flush(struct log_copy *c)
{
	size_t at = 0;

	while (c->fd >= 0 && at < c->text.len) {
		ssize_t n = log_fs_write(c->fd, c->text.data + at, c->text.len - at);

		if (n < 0) {
			c->fd = log_fs_close(c->fd);
			c->fn(c->arg, c->path, -n);
			break;
		}
		at += n;
	}
	lines_buf_clear(&c->text);
}

static bool has_text(const struct log_copy *c, const char *data, size_t len)
{
	for (char *const *t = c->texts; *t; t++)
		if (memmem(data, len, *t, strlen(*t)))
			return true;
	return false;
}

void log_copy_put(struct log_copy *c, struct log_copy_line *line, const char *prefix,
	size_t prefix_len, const char *data, size_t len, unsigned flags)
{
	if (c->fd < 0)
		return;
	if (flags & LINE_START)
		line->chosen = false;
	line->chosen = line->chosen || has_text(c, data, len);
	if (!line->chosen)
		return;
	/* Each piece of a long line becomes a line: pieces of two ranks' lines would mix here. */
	if (!lines_buf_add(&c->text, prefix, prefix_len) || !lines_buf_add(&c->text, data, len) ||
		!lines_buf_add(&c->text, "\n", 1))
		c->text.len = 0;
	if (c->text.len >= FLUSH_BYTES)
		log_copy_flush(c);
}
