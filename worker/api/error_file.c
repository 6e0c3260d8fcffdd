/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's error.json. */
#include "worker/api/error_file.h"
#include "worker/base/failure.h"
#include "worker/base/handle.h"

#include "common/base/file.h"
#include "common/text/json.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* {"message": {"message", "extraInfo": {"py_callstack", "timestamp"}}}. Readers of such files
 * expect the time in whole seconds, as a string. */
static char *error_file_text(const char *message, const char *traceback)
{
	_cleanup_json_ json_t *doc = json_object();
	json_t *inner = json_object(), *extra = json_object();
	struct timespec now;
	char seconds[32];
	int r;

	/* time() would still be a second behind just after a second has begun. */
	clock_gettime(CLOCK_REALTIME, &now);
	snprintf(seconds, sizeof(seconds), "%lld", (long long)now.tv_sec);
	r = json_put_string(extra, "py_callstack", traceback ? traceback : "");
	if (!r)
		r = json_put_string(extra, "timestamp", seconds);
	if (!r)
		r = json_put_string(inner, "message", message);
	if (!r)
		r = json_put(inner, "extraInfo", json_incref(extra));
	if (!r)
		r = json_put(doc, "message", json_incref(inner));
	json_decref(extra);
	json_decref(inner);
	return r ? NULL : json_dump_text(doc, NULL);
}

/* Renames the file to path unless there is one already. */
static int error_file_publish(const char *name, const char *path)
{
	if (renameat2(AT_FDCWD, name, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
		return 0;
	/* Some file systems cannot do that. */
	if (errno == EINVAL || errno == ENOSYS) {
		if (link(name, path) == 0) {
			unlink(name);
			return 0;
		}
	}
	return -errno;
}

enum elasticd_status error_file_write(
	const struct elasticd *h, const char *message, const char *traceback)
{
	_cleanup_free_ char *text = NULL, *name = NULL;
	int r;

	if (!h->error_file || access(h->error_file, F_OK) == 0)
		return ELASTICD_STATUS_OK;
	text = error_file_text(message, traceback);
	if (!text || asprintf(&name, "%s.XXXXXX", h->error_file) < 0)
		return fail_memory();
	r = file_write_temporary(name, text, strlen(text), 0644, false);
	if (r == 0) {
		r = error_file_publish(name, h->error_file);
		if (r < 0)
			unlink(name);
	}
	if (r < 0 && r != -EEXIST)
		return fail(
			r == -ENOSPC ? ELASTICD_STATUS_RESOURCE_EXHAUSTED : ELASTICD_STATUS_UNKNOWN,
			"%s: %s", h->error_file, strerror(-r));
	return ELASTICD_STATUS_OK;
}

enum elasticd_status elasticd_write_error(
	struct elasticd *h, const char *message, const char *traceback)
{
	return error_file_write(h, message ? message : "", traceback);
}
