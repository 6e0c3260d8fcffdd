// SPDX-License-Identifier: Apache-2.0
/* Reads a journal into the machine, and writes a new one. */
#include "agent/queue/machine/private.h"

static int restore_submit(struct queues *q, const struct queue_record *r)
{
	struct queue_new n = { r->payload, r->needs, r->n_needs, r->limit_ms, r->flag };
	struct queue_set *set;
	struct queue_lane *lane;
	struct queue_task *t;
	struct queue *of;
	const char *which;
	enum status s;

	if (r->task <= 0 || r->task > QUEUE_TASK_MAX || queue_task_find(q, r->task) ||
		!queue_name_ok(r->queue, true) || !queue_bytes_ok(&r->payload) ||
		r->n_needs > QUEUE_NEEDS_MAX)
		return -EINVAL;
	s = queue_set_find(q, r->needs, r->n_needs, &set, &which);
	if (s != STATUS_OK)
		return s == STATUS_NOT_FOUND ? -EINVAL : -ENOMEM;
	of = queue_get(q, r->queue, &s);
	lane = of ? queue_lane_get(q, of, set) : NULL;
	if (of)
		of->outside = true; /* not known, so assume it */
	t = lane ? queue_task_new(q, lane, r->task, &n) : NULL;
	if (!t) {
		if (of)
			queue_changed(q, of);
		return -ENOMEM;
	}
	if (q->next_task <= r->task)
		q->next_task = r->task + 1;
	queue_task_enqueue(q, t, 0);
	return 0;
}

static int restore_over(struct queues *q, struct queue_task *t, const struct queue_record *r)
{
	struct queue *of = queue_lane_of(q, t)->of;
	struct queue_blob *value = NULL;
	struct queue_err *err = NULL;
	bool raised;
	enum queue_state state = r->kind == QUEUE_REC_SUCCEED ? QUEUE_SUCCEEDED
				 : r->kind == QUEUE_REC_FAIL  ? QUEUE_FAILED
							      : QUEUE_CANCELLED;

	if (t->state != QUEUE_QUEUED || (state == QUEUE_SUCCEEDED && !queue_bytes_ok(&r->payload)))
		return -EINVAL;
	if (state == QUEUE_SUCCEEDED)
		value = queue_blob_new(&r->payload);
	else
		err = queue_err_copy(&r->error);
	if (!value && !err)
		return -ENOMEM;
	t->tries = (uint32_t)r->number;
	if (r->error.worker >= 0 && r->error.worker < QUEUE_NO_WORKER)
		t->worker = (uint16_t)r->error.worker;
	raised = state == QUEUE_FAILED && r->flag;
	t->raised = raised;
	queue_err_ref(err);
	queue_task_over(q, t, state, value, err, 0);
	if (raised)
		queue_set_error(q, of, err, 0);
	queue_err_unref(err);
	return 0;
}

static int restore_task(struct queues *q, const struct queue_record *r)
{
	struct queue_task *t = queue_task_find(q, r->task);
	bool again;

	if (!t && r->kind == QUEUE_REC_RELEASE && r->task > 0 && r->task <= QUEUE_TASK_MAX) {
		/* The task existed: its number must not be used again. */
		if (q->next_task <= r->task)
			q->next_task = r->task + 1;
		return 0;
	}
	if (!t)
		return -EINVAL;
	switch (r->kind) {
	case QUEUE_REC_RELEASE:
		queue_task_release(q, r->task);
		return 0;
	case QUEUE_REC_TRY:
		if (t->state != QUEUE_QUEUED)
			return -EINVAL;
		/* The death of a worker after the task was put back does not move the task. */
		again = t->tries != (uint32_t)r->number || (uint64_t)r->limit_ms <= t->deaths;
		t->tries = (uint32_t)r->number;
		t->deaths = (uint64_t)r->limit_ms & 1023;
		if (!again)
			return 0;
		queue_task_dequeue(q, t);
		queue_task_enqueue(q, t, 0);
		return 0;
	default:
		return restore_over(q, t, r);
	}
}

/* The queue and the error of a record that has both. The error is owned. */
static int restore_queue_error(struct queues *q, const struct queue_record *r,
	struct queue **ret_queue, struct queue_err **ret_err)
{
	enum status s;

	if (!queue_name_ok(r->queue, true))
		return -EINVAL;
	*ret_queue = queue_get(q, r->queue, &s);
	if (!*ret_queue)
		return -ENOMEM;
	queue_changed(q, *ret_queue);
	*ret_err = queue_err_copy(&r->error);
	return *ret_err ? 0 : -ENOMEM;
}

static int restore_error(struct queues *q, const struct queue_record *r)
{
	struct queue_err *err;
	struct queue *of;
	int k = restore_queue_error(q, r, &of, &err);

	if (k < 0)
		return k;
	queue_set_error(q, of, err, 0);
	queue_err_unref(err);
	return 0;
}

static int restore_loss(struct queues *q, const struct queue_record *r)
{
	struct queue_err *err;
	struct queue *of;
	int k = restore_queue_error(q, r, &of, &err);

	if (k < 0)
		return k;
	queue_set_loss(q, of, err, r->number < 0 || r->number > 255 ? -1 : (int)r->number);
	queue_err_unref(err);
	return 0;
}

static int restore_raised(struct queues *q, const char *name)
{
	struct queue *of = queue_find(q, name);

	if (!of || !of->error)
		return -EINVAL;
	queue_err_unref(of->error);
	of->error = NULL;
	queue_changed(q, of);
	return 0;
}

static int from_status(enum status s)
{
	return s == STATUS_OK ? 0 : s == STATUS_RESOURCE_EXHAUSTED ? -ENOMEM : -EINVAL;
}

static int restore_record(struct queues *q, const struct queue_record *r)
{
	struct queue *of;

	switch (r->kind) {
	case QUEUE_REC_SUBMIT:
		return restore_submit(q, r);
	case QUEUE_REC_ERROR:
		return restore_error(q, r);
	case QUEUE_REC_RAISED:
		return restore_raised(q, r->queue);
	case QUEUE_REC_LOSS:
		return restore_loss(q, r);
	case QUEUE_REC_LOSS_TOLD:
		/* The error was reported at once; the journal has nothing else of it. */
		queue_loss_told(q, queue_find(q, r->queue));
		return 0;
	case QUEUE_REC_KEEP:
		/* The keeper is gone with the earlier agent, and the queue's tasks with it. */
		of = queue_find(q, r->queue);
		if (of)
			queue_abandon(q, of, 0);
		return 0;
	case QUEUE_REC_RESOURCE:
		return from_status(queue_resource_create(q, r->queue, &r->payload, 0));
	case QUEUE_REC_DROP:
		return from_status(queue_resource_drop(q, r->queue, 0));
	case QUEUE_REC_CLOSE:
		q->closed = true;
		return 0;
	default:
		return restore_task(q, r);
	}
}

int queue_restore(struct queues *q, const struct queue_record *r)
{
	int k;

	q->restoring = true;
	k = restore_record(q, r);
	queue_settle(q, 0);
	q->restoring = false;
	q->alone_ms = UINT64_MAX;
	q->put_back = q->n_over = 0;
	return k;
}

/* --- the new journal: resources, tasks, errors in no task, losses, the last number, closed */

enum part { RESOURCES, TASKS, ERRORS, LOSSES, NUMBER, CLOSED, END };

static uint64_t cursor_of(enum part part, uint64_t at)
{
	return (uint64_t)part << 60 | at;
}

static uint64_t cursor_place(uint64_t cursor)
{
	return cursor & ((UINT64_C(1) << 60) - 1);
}

static struct queue_record record_of(enum queue_record_kind kind, const char *queue, int64_t task)
{
	return (struct queue_record){ .kind = kind,
		.task = task,
		.limit_ms = -1,
		.queue = queue,
		.payload = queue_blob_bytes(NULL),
		.error = queue_err_view(NULL) };
}

static bool dump_resource(const struct queues *q, uint64_t *cursor, struct queue_record *ret)
{
	uint64_t last = cursor_place(*cursor);
	const struct queue_resource *next = NULL;

	for (int i = 0; i < QUEUE_RESOURCES_MAX; i++) {
		const struct queue_resource *r = q->resources[i];

		if (r && r->order > last && (!next || r->order < next->order))
			next = r;
	}
	if (!next)
		return false;
	*cursor = cursor_of(RESOURCES, next->order);
	*ret = record_of(QUEUE_REC_RESOURCE, next->name, -1);
	ret->payload = queue_blob_bytes(next->payload);
	return true;
}

/* The records of a task, in order. */
enum { SAY_SUBMIT, SAY_TRY, SAY_OVER, SAY_RELEASE, SAY_N };

static bool task_has_record(const struct queue_task *t, unsigned what, enum queue_record_kind *ret)
{
	bool decided = queue_task_is_over(t) || (t->state == QUEUE_RUNNING && t->lease->cancelled);
	unsigned state = decided ? (t->state == QUEUE_RUNNING ? t->lease->becomes : t->state) : 0;

	switch (what) {
	case SAY_SUBMIT:
		*ret = QUEUE_REC_SUBMIT;
		return true;
	case SAY_TRY:
		*ret = QUEUE_REC_TRY;
		return !decided && t->tries > 0;
	case SAY_OVER:
		*ret = state == QUEUE_SUCCEEDED ? QUEUE_REC_SUCCEED
		       : state == QUEUE_FAILED	? QUEUE_REC_FAIL
						: QUEUE_REC_CANCEL;
		return decided;
	default:
		*ret = QUEUE_REC_RELEASE;
		return t->released;
	}
}

static bool is_pending(const struct queues *q, const struct queue_task *t)
{
	const struct queue_err *e = queue_lane_of(q, t)->of->error;

	return e && queue_err_view(e).task == (int64_t)t->id;
}

static bool dump_task(const struct queues *q, uint64_t *cursor, struct queue_record *ret)
{
	uint64_t at = cursor_place(*cursor);
	int64_t id = (int64_t)(at / SAY_N);
	unsigned what = at % SAY_N;
	const struct queue_task *t = queue_task_find(q, id);

	for (;;) {
		struct queue_note n = { .name = "" };

		if (!t || what == SAY_N) {
			t = queue_index_after(&q->tasks, t ? (int64_t)t->id : id);
			what = SAY_SUBMIT;
		}
		while (t && t->kept) {
			t = queue_index_after(&q->tasks, (int64_t)t->id);
			what = SAY_SUBMIT;
		}
		if (!t)
			return false;
		n.task = (int64_t)t->id;
		if (task_has_record(t, what++, &n.kind) && queue_describe(q, &n, ret)) {
			/* A reported error is no longer its queue's. */
			ret->flag = ret->flag && (n.kind != QUEUE_REC_FAIL || is_pending(q, t));
			break;
		}
	}
	*cursor = cursor_of(TASKS, t->id * SAY_N + what);
	return true;
}

static bool dump_error(const struct queues *q, uint64_t *cursor, struct queue_record *ret)
{
	uint64_t last = cursor_place(*cursor);
	const struct queue *next = NULL;

	for (const struct queue_link *l = q->all.next; l != &q->all; l = l->next) {
		const struct queue *of = container_of(l, struct queue, all);

		if (queue_error_is_bare(q, of) && !of->keepers && of->error_order > last &&
			(!next || of->error_order < next->error_order))
			next = of;
	}
	if (!next)
		return false;
	*cursor = cursor_of(ERRORS, next->error_order);
	*ret = record_of(QUEUE_REC_ERROR, next->name, -1);
	ret->error = queue_err_view(next->error);
	return true;
}

static bool dump_loss(const struct queues *q, uint64_t *cursor, struct queue_record *ret)
{
	uint64_t last = cursor_place(*cursor);
	const struct queue *next = NULL;

	for (const struct queue_link *l = q->all.next; l != &q->all; l = l->next) {
		const struct queue *of = container_of(l, struct queue, all);

		if (of->loss && !of->keepers && of->loss_order > last &&
			(!next || of->loss_order < next->loss_order))
			next = of;
	}
	if (!next)
		return false;
	*cursor = cursor_of(LOSSES, next->loss_order);
	*ret = record_of(QUEUE_REC_LOSS, next->name, -1);
	ret->error = queue_err_view(next->loss);
	ret->number = next->loss_exit_code;
	return true;
}

bool queue_dump(const struct queues *q, uint64_t *cursor, struct queue_record *ret)
{
	const struct queue_task *t;

	switch ((enum part)(*cursor >> 60)) {
	case RESOURCES:
		if (dump_resource(q, cursor, ret))
			return true;
		*cursor = cursor_of(TASKS, 0);
		/* fallthrough */
	case TASKS:
		if (dump_task(q, cursor, ret))
			return true;
		*cursor = cursor_of(ERRORS, 0);
		/* fallthrough */
	case ERRORS:
		if (dump_error(q, cursor, ret))
			return true;
		*cursor = cursor_of(LOSSES, 0);
		/* fallthrough */
	case LOSSES:
		if (dump_loss(q, cursor, ret))
			return true;
		/* fallthrough */
	case NUMBER:
		*cursor = cursor_of(CLOSED, 0);
		/* The last number used, so that it is not used again. */
		t = queue_task_find(q, q->next_task - 1);
		if ((!t || t->kept) && q->next_task > 1) {
			*ret = record_of(QUEUE_REC_RELEASE, "", q->next_task - 1);
			return true;
		}
		/* fallthrough */
	case CLOSED:
		*cursor = cursor_of(END, 0);
		*ret = record_of(QUEUE_REC_CLOSE, "", -1);
		return q->closed;
	case END:
		break;
	}
	return false;
}
