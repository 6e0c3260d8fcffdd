/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The text of calls, and what an error in an answer means. */

#include "common/text/json_writer.h"
#include "common/varlink/message.h"
#include "worker/elasticd.h"

/* The parameters of a call while they are written. Where memory was short, building the message
 * fails, so the functions that add to it need no check. */
struct params {
	struct json_writer text; /* space for the head of the message, then the parameters */
};
#define PARAMS_EMPTY ((struct params){ .text = { .data = NULL } })
void params_fini(struct params *a);
void params_text(struct params *a, const char *name, const char *text); /* NULL: left out */
/* At most max bytes of it; cut between characters. */
void params_text_cut(struct params *a, const char *name, const char *text, size_t max);
void params_int(struct params *a, const char *name, int64_t n);
void params_true(struct params *a, const char *name, bool set); /* false: left out */
void params_names(struct params *a, const char *name, const char *const *names, size_t n);
/* Bytes: as `name` where they are text, else as "base64". */
void params_bytes(struct params *a, const char *name, const void *value, size_t len);
/* The name of a member whose value the caller writes next by params_raw(). */
void params_name(struct params *a, const char *name);
/* JSON as it is. */
void params_raw(struct params *a, const char *text, size_t len);
/* Of Put and Get, which several files send. */
void params_put(struct params *a, const char *key, const void *value, size_t len, int flags);
void params_get(struct params *a, const char *key, int timeout_ms);
/* The parameters so far, borrowed until the next change. */
const char *params_members(const struct params *a);
size_t params_length(const struct params *a);

/* The whole call; takes a, whose memory ret owns from then on. A method without a dot is one of
 * io.elasticd.Worker. 0 or a negative errno. */
_must_check_ int params_message(
	struct params *a, const char *method, bool more, struct varlink_buffer *ret);

/* The code of an error, by its name; UNKNOWN where there is none of that name. */
enum elasticd_status error_code(const char *name);
/* Records the error of an answer as this thread's failure, and returns its status. */
enum elasticd_status fail_answer(const struct varlink_in *in);
