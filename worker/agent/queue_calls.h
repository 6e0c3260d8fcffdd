/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The calls of io.elasticd.Queue: queue_calls.c, submit_calls.c, fetch_calls.c for coordinators,
 * work_calls.c for workers. Arguments were checked; results are those of the public functions,
 * and ret_ parameters are never NULL.
 */

#include "worker/base/queue_handle.h"

/* A name for a queue without one, and a connection that keeps it. */
enum elasticd_status own_queue_open(struct elasticd_queue *q);
/* Nothing where the queue has a name. */
void own_queue_close(struct elasticd_queue *q);
/* Cancels and forgets what is in a queue whose keeper is gone. */
void own_queue_clear(struct elasticd_queue *q);

/* *ret_accepted is 0 before. */
enum elasticd_status call_submit(struct elasticd_queue *q,
	const struct elasticd_queue_new_task *tasks, size_t n, int timeout_ms, int64_t *ret_tasks,
	size_t *ret_accepted);
enum elasticd_status call_join(struct elasticd_queue *q, int timeout_ms);
enum elasticd_status call_done(struct elasticd_queue *q, bool *ret);
enum elasticd_status call_cancel(struct elasticd_queue *q, const int64_t *tasks, size_t n,
	const char *reason, int timeout_ms, size_t *ret_n);
enum elasticd_status call_fetch(struct elasticd_queue *q, const int64_t *tasks, size_t n, int flags,
	int timeout_ms, struct elasticd_queue_outcome **ret, size_t *ret_n);
enum elasticd_status call_release(struct elasticd_queue *q, const int64_t *tasks, size_t n);

/* queue NULL: of all together. */
enum elasticd_status call_stats(
	struct elasticd *h, const char *queue, struct elasticd_queue_stats *ret);
enum elasticd_status call_close_all(struct elasticd *h);
enum elasticd_status call_create_resource(
	struct elasticd *h, const char *name, const struct elasticd_queue_bytes *payload);
enum elasticd_status call_drop_resource(struct elasticd *h, const char *name);
enum elasticd_status call_workers(struct elasticd *h, const char *const *workers, size_t n,
	const struct elasticd_queue_bytes *payload, int timeout_ms, int answer_timeout_ms,
	struct elasticd_queue_answer **ret, size_t *ret_n);

/* Frees what w holds; the agent puts its item back, unless w belongs to a parent. */
void work_fini(struct elasticd_queue_work *w);
/* In a child of fork(): leaves what w holds to the parent. */
void work_renew(struct elasticd_queue_work *w);
/* Sets w->item and w->has_item, or *ret_closed: no item will come any more. */
enum elasticd_status call_work(struct elasticd_queue_work *w, int timeout_ms, bool *ret_closed);
/* Ends the item, which clears w->has_item; next: then as call_work(), in the same call. */
enum elasticd_status call_answer(struct elasticd_queue_work *w, const struct verdict *v, bool next,
	int timeout_ms, bool *ret_closed);
/* Whether a call_answer() with next, which a signal has ended, can go on by call_work(). */
bool work_is_pending(const struct elasticd_queue_work *w);
/* CANCELLED, with the reason, where the item was; OK where it was not. */
enum elasticd_status call_look(struct elasticd_queue_work *w);
