/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/last_error.h"

#include "common/base/cleanup.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/paths.h"
#include "common/base/safe_open.h"
#include "common/text/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LAST_ERROR_MAX = 1000, LAST_ERROR_STATUS = 125 };

/* Whether an agent that cannot begin because of code (a negative errno) would fail again: for every
 * error except those that another process or a later try may cure. */
static bool last_error_stays(int code)
{
	switch (-code) {
	case ENOMEM:
	case EAGAIN:
	case EINTR:
	case EBUSY:
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
	case ENOSPC:
	case EDQUOT:
	case EIO:
	case ESTALE:
	case ETIMEDOUT:
	case EADDRINUSE:
		return false;
	default:
		return true;
	}
}

static void last_error_write(
	const char *state_dir, const char *name, const char *text, size_t len, bool sync)
{
	_cleanup_free_ char *path = paths_join(state_dir, name);
	int r = path ? file_write_atomic(path, text, len, 0640, sync) : -ENOMEM;

	if (r < 0)
		log_warning("%s/%s: %s", state_dir, name, strerror(-r));
}

void last_error_save(const char *state_dir, const char *text)
{
	if (state_dir)
		last_error_write(
			state_dir, "last_error", text, strnlen(text, LAST_ERROR_MAX), false);
}

void last_error_cannot_begin(const char *state_dir, int code, const char *text)
{
	_cleanup_json_ json_t *verdict = NULL;
	_cleanup_free_ char *dump = NULL;
	size_t len;

	if (!state_dir)
		return;
	if (last_error_stays(code)) {
		verdict = json_object();
		json_put(verdict, "result", json_string("failed"));
		json_put_int(verdict, "exit_status", LAST_ERROR_STATUS);
		json_put_string(verdict, "message", text);
		dump = json_dump_text(verdict, &len);
	}
	if (dump)
		last_error_write(state_dir, "verdict.json", dump, len, true);
	else
		last_error_save(state_dir, text);
}

char *last_error_take(const char *state_dir)
{
	_cleanup_free_ char *path = state_dir ? paths_join(state_dir, "last_error") : NULL;
	_cleanup_close_ int fd = path ? safe_open(AT_FDCWD, path, O_RDONLY, 0) : -1;
	char text[LAST_ERROR_MAX + 1];
	ssize_t n;

	if (fd < 0)
		return NULL;
	n = read(fd, text, LAST_ERROR_MAX);
	(void)!unlink(path);
	if (n <= 0)
		return NULL;
	text[n] = '\0';
	return strdup(text);
}
