/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/state_file.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "common/json.h"
#include "common/log.h"
#include "common/safe_open.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct state_file {
	char *path, *spare_path;
	int spare_fd; /* -1: none */
	bool spare_used;
};

static char *state_file_path(const char *dir, const char *name)
{
	char *path;

	return asprintf(&path, "%s/%s", dir, name) < 0 ? NULL : path;
}

/* All of it, always: what was written once has its room. */
static int state_file_fill(struct state_file *s, const char *text, size_t len)
{
	_cleanup_free_ char *buffer = NULL;

	if (len > STATE_FILE_SPARE_BYTES)
		return -EFBIG;
	buffer = malloc(STATE_FILE_SPARE_BYTES);
	if (!buffer)
		return -ENOMEM;
	memset(buffer, '\n', STATE_FILE_SPARE_BYTES);
	memcpy(buffer, text, len);
	if (pwrite(s->spare_fd, buffer, STATE_FILE_SPARE_BYTES, 0) != STATE_FILE_SPARE_BYTES)
		return errno ? -errno : -EIO;
	return 0;
}

static void state_file_make_spare(struct state_file *s)
{
	s->spare_fd = safe_open(AT_FDCWD, s->spare_path, O_RDWR, 0);
	if (s->spare_fd >= 0) { /* an agent before this one made it, and may have needed it */
		s->spare_used = true;
		return;
	}
	s->spare_fd = safe_open(AT_FDCWD, s->spare_path, O_RDWR | O_CREAT, 0640);
	if (s->spare_fd >= 0 && state_file_fill(s, "", 0) < 0) {
		close_fd(s->spare_fd);
		s->spare_fd = -1;
		(void)!unlink(s->spare_path);
	}
}

struct state_file *state_file_new(const char *dir)
{
	struct state_file *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->spare_fd = -1;
	s->path = state_file_path(dir, "state.json");
	s->spare_path = state_file_path(dir, "state.spare");
	if (!s->path || !s->spare_path)
		return state_file_free(s);
	state_file_make_spare(s);
	return s;
}

struct state_file *state_file_free(struct state_file *s)
{
	if (!s)
		return NULL;
	close_fd(s->spare_fd);
	free(s->path);
	free(s->spare_path);
	free(s);
	return NULL;
}

const char *state_file_name(const struct state_file *s)
{
	return s->path;
}

static bool state_file_no_room(int r)
{
	return r == -ENOSPC || r == -EDQUOT;
}

/* Long lists are left out before what was counted. */
static void state_file_use_spare(struct state_file *s, const json_t *doc)
{
	_cleanup_json_ json_t *copy = json_deep_copy(doc);
	int r = -EFBIG;

	for (int step = 0; r == -EFBIG && step < 3; step++) {
		_cleanup_free_ char *text = NULL;
		size_t len;

		if (step == 1)
			json_put(json_get_object(copy, "job"), "tasks", json_array());
		if (step == 2)
			json_object_del(json_get_object(copy, "job"), "verdict");
		text = json_dump_text(copy, &len);
		r = text ? state_file_fill(s, text, len) : -ENOMEM;
	}
	if (r < 0)
		log_warning("%s: %s", s->spare_path, strerror(-r));
	s->spare_used = true;
}

int state_file_write(struct state_file *s, const json_t *doc)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	int r;

	text = json_dump_text(doc, &len);
	r = text ? file_write_atomic(s->path, text, len, 0640, false) : -ENOMEM;
	if (state_file_no_room(r) && s->spare_fd >= 0) {
		state_file_use_spare(s, doc);
	} else if (!r && s->spare_used) {
		s->spare_used = state_file_fill(s, "", 0) < 0;
	}
	return r;
}

void state_file_done(struct state_file *s)
{
	if (!s->spare_used)
		(void)!unlink(s->spare_path);
}

static int state_file_read_one(
	const char *dir, const char *name, size_t max, json_t **ret, struct error *err)
{
	_cleanup_free_ char *path = state_file_path(dir, name);

	return path ? json_read_file(path, max, ret, err)
		    : error_set(err, -ENOMEM, "out of memory");
}

int state_file_read(const char *dir, size_t max, json_t **ret, struct error *err)
{
	if (!state_file_read_one(dir, "state.spare", max, ret, NULL))
		return 0;
	return state_file_read_one(dir, "state.json", max, ret, err);
}
