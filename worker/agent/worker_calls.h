/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The functions behind side_remote, as struct side has them, and what they share. */

#include "worker/base/connection.h"

/* n entries or changes of list from begin on, as elasticd_entries_free() takes them. A status. */
int entries_take(const json_t *list, size_t begin, size_t n, struct elasticd_entry **ret);
/* An owned GroupError; a status. */
int error_take(const json_t *j, struct elasticd_error **ret);

int remote_pipeline(struct elasticd *h, struct elasticd_op *ops, size_t n, int timeout_ms);

int remote_watch_open(struct elasticd *h, const char *key, int64_t since, void **ret);
int remote_watch_next(void *stream, int timeout_ms, struct elasticd_entry **ret);
int remote_events_open(struct elasticd *h, void **ret);
int remote_events_next(void *stream, int timeout_ms, struct elasticd_event **ret);
int remote_stream_fd(const void *stream);
void remote_stream_close(void *stream);

int remote_barrier(
	struct elasticd *h, const char *name, const char *const *members, size_t n, int timeout_ms);
int remote_barrier_cancel(struct elasticd *h, const char *name, const char *message);
int remote_alive(struct elasticd *h, const char *const *members, size_t n, int timeout_ms,
	char ***ret, size_t *ret_n);
int remote_states(struct elasticd *h, const char *const *roles, size_t n,
	struct elasticd_member **ret, size_t *ret_n);
int remote_result(struct elasticd *h, const void *value, size_t len);
int remote_report(struct elasticd *h, int code, const char *message);
int remote_wait_error(struct elasticd *h, int timeout_ms, struct elasticd_error **ret);
int remote_leave(struct elasticd *h, int timeout_ms);

int remote_step(struct elasticd *h, int64_t n, int *ret_action);
int remote_saved(struct elasticd *h, int64_t n, const char *path);
int remote_preemption(struct elasticd *h, struct elasticd_preemption *ret);
int remote_notify(struct elasticd *h, const char *reason, int64_t grace_ms);
