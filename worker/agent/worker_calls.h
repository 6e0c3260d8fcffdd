/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The calls of io.elasticd.Worker: store_calls.c, pipeline_calls.c, group_calls.c and
 * preemption_calls.c. Arguments were checked, keys are normalised; results are those of the
 * public functions.
 */

#include "worker/elasticd.h"

enum elasticd_status call_put(
	struct elasticd *h, const char *key, const void *value, size_t len, int flags);
enum elasticd_status call_get(
	struct elasticd *h, const char *key, int timeout_ms, void **ret, size_t *ret_len);
enum elasticd_status call_delete(struct elasticd *h, const char *key, int64_t *ret);
enum elasticd_status call_list(
	struct elasticd *h, const char *key, struct elasticd_entry **ret, size_t *ret_n);

/* Checks and makes those of the ops that are not done, each with a status of its own. OK, or
 * INTERRUPTED where some are left. */
enum elasticd_status call_pipeline(
	struct elasticd *h, struct elasticd_op *ops, size_t n, int timeout_ms);

enum elasticd_status call_barrier(
	struct elasticd *h, const char *name, const char *const *members, size_t n, int timeout_ms);
enum elasticd_status call_cancel_barrier(struct elasticd *h, const char *name, const char *message);
enum elasticd_status call_alive(struct elasticd *h, const char *const *members, size_t n,
	int timeout_ms, char ***ret, size_t *ret_n);
enum elasticd_status call_states(struct elasticd *h, const char *const *roles, size_t n,
	struct elasticd_worker **ret, size_t *ret_n);
enum elasticd_status call_result(struct elasticd *h, const void *value, size_t len);
enum elasticd_status call_report_error(
	struct elasticd *h, enum elasticd_status code, const char *message);
enum elasticd_status call_wait_error(
	struct elasticd *h, int timeout_ms, struct elasticd_error **ret);
enum elasticd_status call_ready(struct elasticd *h);
enum elasticd_status call_leave(struct elasticd *h, int timeout_ms);

enum elasticd_status call_step(struct elasticd *h, int64_t n, enum elasticd_action *ret);
enum elasticd_status call_saved(struct elasticd *h, int64_t n, const char *path);
enum elasticd_status call_preemption(struct elasticd *h, struct elasticd_preemption *ret);
enum elasticd_status call_notify(struct elasticd *h, const char *reason, int64_t grace_ms);
