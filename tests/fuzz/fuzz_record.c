/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records: whatever a file holds, it is read or refused with a text, and what is read holds what
 * the rest of elasticd counts on. The same bytes are also taken as an agent's Job for the mirror.
 */
#include "common/text/json.h"
#include "daemon/jobs/mirror.h"
#include "daemon/jobs/record.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RUN "job_abcd1234"
#define EXPECT(condition)         \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

static void as_record(const json_t *doc)
{
	struct job_record r = { 0 };
	struct error err = { 0 };

	if (job_record_parse(doc, RUN, &r, &err) < 0) {
		EXPECT(err.text[0] && !r.name);
		return;
	}
	EXPECT(!strcmp(r.run, RUN) && !strcmp(r.name, "job"));
	EXPECT(r.log_dir[0] == '/' && r.agent_pid >= 0 && r.agent_losses >= 0);
	job_record_fini(&r);
}

static void as_job(json_t *doc)
{
	struct job_record r = { .name = (char *)"job",
		.run = (char *)RUN,
		.user = (char *)"me",
		.log_dir = (char *)"/l" };
	_cleanup_json_ json_t *verdict = NULL;
	_cleanup_json_ json_t *back = NULL;
	struct mirror m = { 0 };
	struct error err = { 0 };

	if (mirror_set(&m, &r, doc, &err) < 0) {
		EXPECT(err.text[0] && !m.text);
		return;
	}
	back = mirror_job(&m);
	EXPECT(!strcmp(json_get_string(back, "run", ""), RUN) && m.brief);
	verdict = json_pack(
		"{s:s, s:i, s:s}", "result", "agent_lost", "exit_status", 125, "message", "m");
	EXPECT(!mirror_finish(&m, &r, verdict, 1, &err) && m.has_verdict);
	EXPECT(mirror_state_ended(m.state));
	mirror_fini(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_json_ json_t *doc = NULL;
	struct error err = { 0 };

	if (json_parse_object((const char *)data, size, &doc, &err) < 0)
		return 0;
	as_record(doc);
	as_job(doc);
	return 0;
}
