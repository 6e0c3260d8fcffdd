/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Answers of io.elasticd.Queue that come in great numbers, read in place into owned lists. */

#include "worker/base/answer_json.h"
#include "worker/elasticd_queue.h"

struct outcomes {
	struct elasticd_queue_outcome *list; /* for elasticd_queue_outcomes_free() */
	size_t n, room;
};
/* The answer of Fetch and FetchMany. */
struct got_outcomes {
	struct answer_text one, many;
	struct outcomes *into; /* they are added to these */
};
struct answer_reader got_outcomes_reader(struct got_outcomes *to);

/* The answer of Call. */
struct got_answers {
	struct answer_text many;
	struct elasticd_queue_answer *list; /* for elasticd_queue_answers_free() */
	size_t n, room;
};
struct answer_reader got_answers_reader(struct got_answers *to);
