/* SPDX-License-Identifier: Apache-2.0 */
/*
 * task submit --fetch: keeps one FetchMany open, for the oldest tasks that were not printed yet.
 * The next call releases what was printed. With results in the order of ends it waits for any task;
 * in the order of tasks it asks for the first few, and for more while these end quickly.
 */
#include "client/queue/payload.h"
#include "client/queue/submit.h"
#include "common/base/printable.h"

#include <errno.h>
#include <string.h>

enum {
	WINDOW = 512,  /* tasks that one call asks for */
	AHEAD = 65536, /* tasks submitted but not printed */
	QUICK_MS = 50,
};

struct collect {
	struct submit *s;
	struct varlink_client *link;
	bool ordered;
	int64_t *tasks; /* [begin, end) were not printed yet */
	size_t begin, end, room;
	size_t window; /* how many the open call asks for; 0: no call is open */
	size_t most;   /* how many the next call may ask for */
	uint64_t sent_ms;
	json_t *printed; /* printed, to be released */
	int releasing;	 /* open calls that release */
	uint64_t freed;
	size_t failed;
};

int collect_add(struct collect *c, int64_t first, size_t n)
{
	size_t left = c->end - c->begin;
	int64_t *grown;

	/* The open call's tasks start at begin, even when the array moves. */
	if (c->begin > 0 && c->end + n > c->room) {
		memmove(c->tasks, c->tasks + c->begin, left * sizeof(*c->tasks));
		c->begin = 0;
		c->end = left;
	}
	if (c->end + n > c->room) {
		size_t room = c->room ? 2 * c->room : 1024;

		while (room < c->end + n)
			room *= 2;
		grown = reallocarray(c->tasks, room, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		c->tasks = grown;
		c->room = room;
	}
	for (size_t i = 0; i < n; i++)
		c->tasks[c->end++] = first + (int64_t)i;
	return 0;
}

size_t collect_left(const struct collect *c)
{
	return c->end - c->begin;
}

size_t collect_failed(const struct collect *c)
{
	return c->failed;
}

bool collect_busy(const struct collect *c)
{
	return collect_left(c) > 0 || c->releasing > 0 || json_array_size(c->printed) > 0;
}

uint64_t collect_freed(const struct collect *c)
{
	return c->freed;
}

bool collect_full(const struct collect *c)
{
	return collect_left(c) >= AHEAD;
}

size_t collect_unreleased(const struct collect *c)
{
	return json_array_size(c->printed);
}

static void no_memory(struct collect *c)
{
	submit_fail(c->s, CTL_FAILED, "out of memory");
}

/* Prints an outcome on one line. False without memory. */
static bool print_outcome(struct collect *c, const json_t *outcome)
{
	const char *state = get_text(outcome, "state");
	size_t len;
	_cleanup_free_ char *exact = payload_result(outcome, &len);
	/* This line does not go through stdout, which would make it printable. */
	_cleanup_free_ char *text =
		exact && c->s->ctl->columns > 0 ? printable_dup(exact) : TAKE_PTR(exact);

	if (!text)
		return false;
	len = strlen(text);
	text[len] = '\n'; /* instead of its NUL */
	if (!state || strcmp(state, "succeeded") != 0) {
		c->failed++;
		queue_print_outcome(c->s->ctl, outcome);
	}
	return stdout_buffer_write(c->s->out, text, len + 1) == 0 &&
	       json_array_append_new(c->printed, json_integer(get_int(outcome, "task"))) == 0;
}

/* Removes printed tasks, which come in the order that the call asked for, from the window. */
static void drop_printed(struct collect *c, const json_t *outcomes)
{
	size_t to = c->begin + c->window, n = json_array_size(outcomes);

	/* Backwards from the window's end, so that the tasks that stay move behind those that go.
	 */
	for (size_t from = to; from > c->begin; from--) {
		if (n > 0 && c->tasks[from - 1] == get_int(json_array_get(outcomes, n - 1), "task"))
			n--;
		else
			c->tasks[--to] = c->tasks[from - 1];
	}
	c->begin = to;
}

static void on_fetched(void *arg, const char *error, json_t *parameters, bool continues)
{
	struct collect *c = arg;
	const json_t *outcomes = json_object_get(parameters, "outcomes");
	json_t *outcome;
	size_t i;

	if (error) {
		c->window = 0;
		if (!strcmp(error, "disconnected") || c->s->finished)
			return;
		submit_refused(c->s, error, parameters, true);
		submit_end(c->s, c->s->status);
		return;
	}
	/* After an interrupt these stay in the queue, and are counted so. */
	if (c->s->interrupted) {
		c->window = 0;
		submit_pump(c->s);
		return;
	}
	if (c->s->view && c->s->ctl->columns > 0)
		progress_view_clear(c->s->view);
	json_array_foreach (outcomes, i, outcome)
		if (!print_outcome(c, outcome)) {
			no_memory(c);
			return;
		}
	if (c->ordered && loop_now_ms() - c->sent_ms < QUICK_MS)
		c->most = c->most < WINDOW / 2 ? 2 * c->most : WINDOW;
	else if (c->ordered)
		c->most = c->most > 1 ? c->most / 2 : 1;
	drop_printed(c, outcomes);
	c->window = 0;
	submit_pump(c->s);
}

static void on_released(void *arg, const char *error, json_t *parameters, bool continues)
{
	struct collect *c = arg;

	if (error && !strcmp(error, "disconnected"))
		return;
	c->releasing--;
	c->freed++;
	c->s->must_release = false;
	submit_pump(c->s);
}

static bool release_printed(struct collect *c)
{
	json_t *p;

	if (json_array_size(c->printed) == 0)
		return true;
	p = ctl_with(queue_parameters(&c->s->q), "tasks", c->printed);
	c->printed = json_array();
	if (!p || !c->printed ||
		varlink_client_call(c->link, QUEUE_METHOD("Release"), p, false, on_released, c) < 0)
		return false;
	c->releasing++;
	return true;
}

static bool fetch_more(struct collect *c)
{
	size_t n = collect_left(c) < c->most ? collect_left(c) : c->most;
	json_t *numbers = json_array(), *p;

	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(numbers, json_integer(c->tasks[c->begin + i])) < 0) {
			json_decref(numbers);
			return false;
		}
	p = ctl_with(queue_parameters(&c->s->q), "tasks", numbers);
	if (!c->ordered)
		p = ctl_with(p, "any", json_true());
	if (!p || varlink_client_call(c->link, QUEUE_METHOD("FetchMany"), p, false, on_fetched, c) <
			  0)
		return false;
	c->window = n;
	c->sent_ms = loop_now_ms();
	return true;
}

void collect_pump(struct collect *c)
{
	if (c->window > 0 || !stdout_buffer_empty(c->s->out))
		return;
	if (!release_printed(c) || (collect_left(c) > 0 && !fetch_more(c)))
		no_memory(c);
}

static void on_disconnected(void *arg)
{
	struct collect *c = arg;
	submit_lost(c->s);
}

int collect_new(struct submit *s, bool ordered, struct collect **ret)
{
	struct collect *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return ctl_error(s->ctl, CTL_FAILED, "out of memory");
	*c = (struct collect){
		.s = s, .ordered = ordered, .most = ordered ? 1 : WINDOW, .printed = json_array()
	};
	r = queue_connect(&s->q, s->loop, on_disconnected, c, &c->link);
	if (r != 0) {
		collect_free(c);
		return r;
	}
	*ret = c;
	return 0;
}

struct collect *collect_free(struct collect *c)
{
	if (!c)
		return NULL;
	varlink_client_free(c->link);
	json_decref(c->printed);
	free(c->tasks);
	free(c);
	return NULL;
}
