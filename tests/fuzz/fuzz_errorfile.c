/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/failure.h"
#include "common/text/json.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/*
 * The text that workers write to error.json. Each file that is read has to end in a Failure object
 * that can be sent and a message of one line; whatever is not has to have its problem named.
 */

static void check_failure(struct error_file *e)
{
	char role_name[] = "worker", path[] = "error.json";
	struct spec_role role = { .name = role_name, .replicas = 1 };
	struct worker worker = { .role = &role, .error_file = path };
	struct failure f = { .worker = &worker, .has_file = true, .file = *e };
	_cleanup_free_ char *text = NULL;
	_cleanup_json_ json_t *j = NULL;
	char line[256];

	worker_set_exit(&worker, CLD_EXITED, 1);
	f.place = root_cause_place(&(struct root_cause){ .start_us = 0,
		.observed_us = INT64_MAX,
		.claimed_us = e->timestamp_us,
		.claimed_whole = e->whole_seconds,
		.written_us = -1,
		.stop_us = -1 });
	failure_message(&f, line, sizeof(line));
	if (strchr(line, '\n') || strlen(line) >= sizeof(line))
		abort();
	j = failure_json(&f, "host", 0, NULL);
	text = json_dumps(j, JSON_COMPACT);
	if (!text || !json_get_string(j, "message", NULL))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error_file e;
	const char *problem;
	int r = error_file_parse((const char *)data, size, &e, &problem);

	if (r < 0) {
		if (r != -EBADMSG || !problem)
			abort();
		return 0;
	}
	if (problem || !e.doc || !e.message || e.timestamp_us < -1)
		abort();
	check_failure(&e);
	error_file_fini(&e);
	return 0;
}
