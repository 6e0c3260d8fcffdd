/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callbacks run only when the connection is ready, and in one deferred call that sends what the
 * current callbacks asked for and goes on after a pause. A callback may free the client: the struct
 * then stays until the callback has returned.
 */
#include "common/varlink/client.h"

#include "common/base/log.h"
#include "common/text/json.h"
#include "common/varlink/frame.h"
#include "common/varlink/message.h"
#include "common/varlink/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

enum {
	RECEIVES_AT_ONCE = 64,
	NAME_BYTES_MAX = 256,
	WORK_AT_ONCE_MS = 5, /* for the answers of one account in one turn */
	CATCH_UP_MS = 20,    /* the same where others ask for them */
	STOOD_STILL_MS =
		1000, /* if a timer is so late, this process stood still, and not the peer */
};

struct pending {
	TAILQ_ENTRY(pending) entry;
	varlink_answer_fn fn;
	void *arg;
	bool more;
};

struct varlink_client {
	struct loop *loop;
	int fd;
	int descriptor; /* a descriptor that goes with the next bytes; -1: none */
	struct loop_fd *watch;
	struct varlink_frame in;
	struct varlink_buffer out;
	TAILQ_HEAD(, pending) calls;
	varlink_closed_fn closed;
	void *arg;
	bool paused;
	struct loop_again *later; /* goes on in the next turn; NULL: its time is not limited */
	bool waiting;		  /* for that turn */
	bool catching_up;
	bool blocked; /* the socket takes no bytes now */
	bool deaf;    /* it never will; but answers may still have to be read */
	bool broken;
	bool cut; /* the budget took its room */
	struct budget_holder bytes;
	struct loop_timer *unfinished; /* runs while an answer is unfinished; NULL: no limit */
	uint64_t message_ms, due_ms;   /* the limit for one answer, and its end */
	size_t message_units;	       /* 0: no limit */
	int callbacks;		       /* running now */
	bool freed;
};

/* Call it after each callback: returns true if the callback freed the client. */
static bool leave_callback(struct varlink_client *c)
{
	c->callbacks--;
	if (!c->freed)
		return false;
	if (!c->callbacks) {
		budget_leave(&c->bytes);
		free(c);
	}
	return true;
}

/* Ends the connection: each open call gets "disconnected", then closed() runs, which may free the
 * client. */
static void disconnect(struct varlink_client *c)
{
	struct pending *p;
	json_t *none = json_object();

	c->broken = true;
	c->watch = loop_fd_free(c->watch);
	c->unfinished = loop_timer_free(c->unfinished);
	budget_leave(&c->bytes);
	c->callbacks++;
	while ((p = TAILQ_FIRST(&c->calls))) {
		struct pending call = *p;

		TAILQ_REMOVE(&c->calls, p, entry);
		free(p);
		call.fn(call.arg, "disconnected", none, false);
	}
	json_decref(none);
	if (!c->freed && c->closed)
		c->closed(c->arg);
	leave_callback(c);
}

static int count_bytes(struct varlink_client *c)
{
	return budget_hold(&c->bytes, varlink_frame_settle(&c->in));
}

/* Whether text can be an error's name. elasticd passes it on in its own answers. */
static bool is_name(const char *text)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789.-_";
	size_t n = strlen(text);

	return n && n <= NAME_BYTES_MAX && strspn(text, allowed) == n;
}

/* The first open call gets the error, and the connection is of no more use. Returns as hand_out().
 */
static int refuse_answer(struct varlink_client *c)
{
	struct pending *p = TAILQ_FIRST(&c->calls);
	_cleanup_json_ json_t *limit = json_pack("{s:I}", "limit", (json_int_t)c->message_units);
	struct pending call;

	log_debug("varlink: an answer has more than %zu units of values", c->message_units);
	if (!p || !limit)
		return -EBADMSG;
	call = *p;
	TAILQ_REMOVE(&c->calls, p, entry);
	free(p);
	c->callbacks++;
	call.fn(call.arg, VARLINK_TOO_MUCH, limit, false);
	return leave_callback(c) ? 1 : -EBADMSG;
}

/* Hands one answer to its call. Returns 0, 1 if the client was freed, or -EBADMSG. */
static int hand_out(struct varlink_client *c, const char *text, size_t len)
{
	struct pending *p = TAILQ_FIRST(&c->calls);
	_cleanup_(varlink_in_fini) struct varlink_in in = { .message = NULL };
	struct error err = { 0 };
	struct pending call;
	int r;

	if (c->message_units && json_units(text, len) > c->message_units)
		return refuse_answer(c);
	r = varlink_in_parse(text, len, &in, &err);
	if (r < 0 || !p || (in.continues && !p->more) || (in.error && !is_name(in.error))) {
		log_debug("varlink: a message that is no answer: %s",
			r < 0		? err.text
			: p && in.error ? "its error has no name"
			: p		? "it continues a call without more"
			: in.error	? in.error
					: "nothing was asked");
		return -EBADMSG;
	}
	/* fn may pass the answer on in one of ours, which is counted there. */
	(void)!count_bytes(c);
	if (c->unfinished)
		loop_timer_disarm(c->unfinished);
	call = *p;
	if (!in.continues || in.error) {
		TAILQ_REMOVE(&c->calls, p, entry);
		free(p);
	}
	c->callbacks++;
	call.fn(call.arg, in.error, in.parameters, in.continues && !in.error);
	return leave_callback(c) ? 1 : 0;
}

/* Whether the answers of its account took no more than their time in this turn; if they did, c goes
 * on in the next one. */
static bool has_time(struct varlink_client *c)
{
	if (!c->later || budget_may_work(&c->bytes, loop_turn(c->loop),
				 c->catching_up ? CATCH_UP_MS : WORK_AT_ONCE_MS))
		return true;
	c->waiting = true;
	loop_again_arm(c->later);
	return false;
}

/* As hand_out(), and counts the time, also if the client is freed meanwhile. */
static int hand_out_timed(struct varlink_client *c, const char *text, size_t len)
{
	uint64_t begun = loop_now_ms();
	int r;

	c->callbacks++;
	r = hand_out(c, text, len);
	budget_worked(&c->bytes, loop_turn(c->loop), loop_now_ms() - begun);
	return leave_callback(c) ? 1 : r;
}

/* Hands out all answers; returns as hand_out(). */
static int hand_out_all(struct varlink_client *c)
{
	char *text;
	size_t len;
	int r = 0;

	while (r == 0 && !c->paused && (!varlink_frame_ready(&c->in) || has_time(c))) {
		r = varlink_frame_next(&c->in, &text, &len);
		if (r <= 0)
			return r;
		r = hand_out_timed(c, text, len);
	}
	return r;
}

/* Sends the descriptor with one byte. Returns as varlink_buffer_send(). If it cannot be sent, the
 * calls go without it. */
static int send_with_descriptor(struct varlink_client *c)
{
	struct varlink_buffer *b = &c->out;
	ssize_t n = varlink_socket_send_fd(c->fd, b->data + b->begin, 1, c->descriptor);

	if (n == -EAGAIN)
		return 1;
	if (n < 0)
		log_debug("varlink: a descriptor does not go: %s", strerror((int)-n));
	else
		b->begin += (size_t)n;
	c->descriptor = close_fd(c->descriptor);
	return 0;
}

static int send_out(struct varlink_client *c)
{
	int r = 0;

	if (c->deaf || c->blocked)
		return 0;
	if (c->descriptor >= 0 && varlink_buffer_len(&c->out))
		r = send_with_descriptor(c);
	if (r == 0)
		r = varlink_buffer_send(&c->out, c->fd, SIZE_MAX);
	c->blocked = r > 0;
	if (r < 0) {
		c->deaf = true;
		varlink_buffer_fini(&c->out);
		/* Read the peer's last answers before reporting the end. */
		return c->paused ? 0 : r;
	}
	return 0;
}

static int watch_events(struct varlink_client *c)
{
	return loop_fd_set(c->watch, (c->paused || c->waiting ? 0 : LOOP_READ) |
					     (c->blocked && !c->deaf ? LOOP_WRITE : 0));
}

static void watch_unfinished(struct varlink_client *c)
{
	if (!c->unfinished)
		return;
	if (c->paused || c->waiting || c->in.begin == c->in.end) {
		loop_timer_disarm(c->unfinished);
	} else if (!loop_timer_armed(c->unfinished)) {
		c->due_ms = loop_now_ms() + c->message_ms;
		loop_timer_arm(c->unfinished, c->message_ms);
	}
}

static void on_unfinished(void *arg)
{
	struct varlink_client *c = arg;

	if (loop_now_ms() > c->due_ms + STOOD_STILL_MS) {
		watch_unfinished(c);
		return;
	}
	log_debug("varlink: an answer has not come as a whole in %" PRIu64 " ms", c->message_ms);
	disconnect(c);
}

/* Once per turn of the loop: sends, hands out answers, and watches for more. */
static void on_turn(void *arg)
{
	struct varlink_client *c = arg;
	int r;

	if (c->broken)
		return;
	c->waiting = false;
	send_out(c);
	r = hand_out_all(c);
	if (r > 0)
		return;
	if (r == 0)
		r = count_bytes(c);
	if (r == -EDQUOT || r == -ENOBUFS)
		log_debug("varlink: there is no room for the rest of an answer");
	if (r < 0 || c->cut || watch_events(c) < 0)
		disconnect(c);
	else
		watch_unfinished(c);
}

static int turn_later(struct varlink_client *c)
{
	return loop_defer(c->loop, on_turn, c);
}

/* Returns 1 if bytes came, 0 if not, or a negative errno at the connection's end. */
static int receive_bytes(struct varlink_client *c)
{
	char data[32768];
	ssize_t n = recv(c->fd, data, sizeof(data), MSG_DONTWAIT);
	int r;

	if (n > 0) {
		r = varlink_frame_feed(&c->in, data, n);
		return r < 0 ? r : 1;
	}
	if (n == 0)
		return -ECONNRESET;
	return errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

static void on_ready(int fd, int events, void *arg)
{
	struct varlink_client *c = arg;
	int r = 0;

	if (events & LOOP_WRITE)
		c->blocked = false;
	if (events & LOOP_READ && !c->paused)
		r = receive_bytes(c);
	if (r < 0)
		disconnect(c);
	else
		on_turn(c);
}

bool varlink_client_may_catch_up(const struct varlink_client *c)
{
	return !c->later || budget_may_work(&c->bytes, loop_turn(c->loop), CATCH_UP_MS);
}

bool varlink_client_lags(const struct varlink_client *c)
{
	return !c->broken && (c->waiting || !varlink_client_may_catch_up(c));
}

static bool catches_up(const struct varlink_client *c)
{
	return !c->freed && !c->broken && !c->paused && varlink_client_may_catch_up(c);
}

void varlink_client_catch_up(struct varlink_client *c)
{
	int r = 1;

	if (c->broken || c->paused || c->callbacks)
		return;
	c->callbacks++;
	c->catching_up = true;
	if (c->waiting)
		on_turn(c);
	for (int n = 0; n < RECEIVES_AT_ONCE && r > 0 && catches_up(c); n++) {
		r = receive_bytes(c);
		if (r > 0)
			on_turn(c);
	}
	c->catching_up = false;
	if (!c->freed && !c->broken && !c->paused && !c->waiting && r < 0)
		disconnect(c);
	leave_callback(c);
}

int varlink_client_new_fd(
	struct loop *loop, int fd, varlink_closed_fn closed, void *arg, struct varlink_client **ret)
{
	struct varlink_client *c = calloc(1, sizeof(*c));
	int r = -ENOMEM;

	if (!c) {
		close(fd);
		return r;
	}
	*c = (struct varlink_client){
		.loop = loop, .fd = fd, .descriptor = -1, .closed = closed, .arg = arg
	};
	varlink_frame_init(&c->in, VARLINK_ANSWER_MAX);
	TAILQ_INIT(&c->calls);
	r = fcntl(fd, F_SETFD, FD_CLOEXEC) < 0
		    ? -errno
		    : loop_fd_new(loop, fd, LOOP_READ, on_ready, c, &c->watch);
	if (r < 0) {
		varlink_client_free(c);
		return r;
	}
	*ret = c;
	return 0;
}

struct varlink_client *varlink_client_free(struct varlink_client *c)
{
	struct pending *p;

	if (!c)
		return NULL;
	/* Calls that expect no answer are still sent. */
	if (!c->broken)
		send_out(c);
	loop_cancel(c->loop, on_turn, c);
	loop_fd_free(c->watch);
	loop_timer_free(c->unfinished);
	loop_again_free(c->later);
	/* The account stays until the running callback is counted. */
	(void)!budget_hold(&c->bytes, 0);
	close_fd(c->fd);
	close_fd(c->descriptor);
	while ((p = TAILQ_FIRST(&c->calls))) {
		TAILQ_REMOVE(&c->calls, p, entry);
		free(p);
	}
	varlink_frame_fini(&c->in);
	varlink_buffer_fini(&c->out);
	c->freed = true;
	c->callbacks++;
	leave_callback(c);
	return NULL;
}

static void on_cut(void *arg)
{
	struct varlink_client *c = arg;

	c->cut = true;
	/* Without memory to defer, the descriptor's readiness causes the turn. */
	if (turn_later(c) < 0)
		log_debug("varlink: a connection is cut when it is ready");
}

int varlink_client_limit(struct varlink_client *c, const struct varlink_client_limits *l)
{
	int r = loop_timer_new(c->loop, on_unfinished, c, &c->unfinished);

	if (r == 0)
		r = loop_again_new(c->loop, on_turn, c, &c->later);
	c->message_ms = l->message_ms;
	c->message_units = l->message_units;
	return r < 0 ? r : budget_join(l->budget, &c->bytes, l->key, false, on_cut, c);
}

static int call_pending(
	struct varlink_client *c, const struct varlink_out *out, varlink_answer_fn fn, void *arg)
{
	struct pending *p;
	int r;

	if (c->broken)
		return -ECONNRESET;
	p = malloc(sizeof(*p));
	if (!p)
		return -ENOMEM;
	*p = (struct pending){ .fn = fn, .arg = arg, .more = out->more };
	r = turn_later(c);
	/* If the socket takes no bytes any more, the call gets "disconnected" from the loop. */
	if (r == 0 && !c->deaf)
		r = varlink_buffer_message(&c->out, out, VARLINK_ANSWER_MAX);
	if (r < 0) {
		free(p);
		return r;
	}
	TAILQ_INSERT_TAIL(&c->calls, p, entry);
	return 0;
}

int varlink_client_call(struct varlink_client *c, const char *method, json_t *parameters, bool more,
	varlink_answer_fn fn, void *arg)
{
	struct varlink_out out = { .method = method, .parameters = parameters, .more = more };
	int r = call_pending(c, &out, fn, arg);

	json_decref(parameters);
	return r;
}

void varlink_client_send_descriptor(struct varlink_client *c, int fd)
{
	close_fd(c->descriptor);
	c->descriptor = fd;
}

void varlink_client_pause(struct varlink_client *c, bool pause)
{
	if (c->paused == pause || c->broken)
		return;
	c->paused = pause;
	/* Without memory to defer, readiness for writing causes the turn. */
	if (turn_later(c) < 0 && loop_fd_set(c->watch, LOOP_WRITE) < 0)
		log_debug("varlink: cannot watch a connection");
}
