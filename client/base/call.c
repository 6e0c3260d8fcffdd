/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of elasticctl: connecting, waiting with a time limit, and printing errors for people.
 */
#include "client/base/answer.h"
#include "client/base/ctl.h"
#include "client/base/job.h"
#include "client/output/screen.h"
#include "client/output/time_text.h"
#include "common/base/clock.h"

#include "common/base/paths.h"
#include "common/base/printable.h"
#include "common/text/json.h"
#include "common/varlink/socket.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#define INTERFACE "io.elasticd.Manager."
#define OURS "io.elasticd."
/* After how long a verb shows for what it waits, and how often it draws that again. */
enum { WAITING_MS = 1000 };

#define SYSTEM_SOCKET "/run/elasticd/control.sock"

static volatile sig_atomic_t interrupted;
static bool catching;
static sigset_t mask_waiting; /* the signal mask during ctl_ready() */

static void on_interrupt(int signo)
{
	interrupted = signo;
}

void ctl_catch_interrupts(void)
{
	struct sigaction sa = { .sa_handler = on_interrupt };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, &mask_waiting);
	sigdelset(&mask_waiting, SIGINT);
	sigdelset(&mask_waiting, SIGTERM);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	catching = true;
}

int ctl_interrupted(void)
{
	return interrupted;
}

static int status_of_failure(const struct ctl *ctl, int status)
{
	return ctl->verdict_status && status != CTL_TIMED_OUT ? CTL_FAILED : status;
}

int ctl_timed_out(const struct ctl *ctl)
{
	return ctl_error(ctl, CTL_TIMED_OUT, "timed out after %g s", ctl->timeout_ms / 1000.0);
}

/* The command that starts the elasticd behind socket; systemd starts the system's. */
static const char *start_command(const char *socket)
{
	bool system = paths_is_system() && !strcmp(socket, SYSTEM_SOCKET);

	if (!system)
		return "\"elasticd &\"";
	return access("/run/systemd/system", F_OK) == 0
		       ? "\"systemctl start elasticd\""
		       : "\"systemctl start elasticd\", or without systemd \"elasticd &\"";
}

int ctl_cannot_connect(const struct ctl *ctl, int r, const struct error *err)
{
	struct error why = { 0 };

	if (ctl->token)
		return ctl_error(ctl, status_of_failure(ctl, CTL_NO_DAEMON),
			"cannot reach the job's agent: %s", err->text);
	if (r == -EPERM)
		return ctl_error(ctl, status_of_failure(ctl, CTL_NO_DAEMON),
			"%s; nothing was sent there. Name the elasticd that is meant with --socket, "
			"and a user that it may run as with --trust-uid",
			err->text);
	if (r == -EACCES)
		return ctl_error(ctl, status_of_failure(ctl, CTL_NO_DAEMON),
			"%s: permission denied; its mode, and that of its directory, says who may use "
			"this elasticd",
			ctl->socket);
	if (r == -ENOENT || r == -ECONNREFUSED) {
		if (ctl->found && paths_check_environment(&why) < 0)
			ctl_error(ctl, 0, "%s", why.text);
		return ctl_error(ctl, status_of_failure(ctl, CTL_NO_DAEMON),
			"no elasticd listens on %s; start one with %s, or name another socket with "
			"--socket",
			ctl->socket, start_command(ctl->socket));
	}
	return ctl_error(
		ctl, status_of_failure(ctl, CTL_NO_DAEMON), "cannot reach elasticd: %s", err->text);
}

/* The program behind ctl->socket, for messages. */
static const char *peer_name(const struct ctl *ctl)
{
	return ctl->token ? "the job's agent" : "elasticd";
}

static int send_hello(struct ctl *ctl, struct varlink_sync *link);

void ctl_explain_break(const struct ctl *ctl, const char *why, struct error *err)
{
	char said[REMOTE_SAID_MAX];

	if (ctl->remote.host && remote_said(&ctl->remote, said))
		error_set(err, -ECONNRESET, "%s: %s", ctl->remote.host, said);
	else
		error_set(err, -ECONNRESET, "the connection to %s broke%s%s", peer_name(ctl),
			why ? ": " : "", why ? why : "");
}

static int report_break(const struct ctl *ctl, const char *why)
{
	struct error err;

	ctl_explain_break(ctl, why, &err);
	return ctl_error(ctl, status_of_failure(ctl, CTL_NO_DAEMON), "%s", err.text);
}

/* Whether the default rules for elasticd's socket may be used. Returns 0 or -EPERM with err. */
static int check_socket(const struct ctl *ctl, struct error *err)
{
	int r = ctl->found ? paths_check_socket(ctl->socket, err) : 0;

	/* If the directory is missing, the connection attempt reports it better. */
	return r == -EPERM ? r : 0;
}

int ctl_open_fd(struct ctl *ctl, int *ret, struct error *err)
{
	_cleanup_close_ int fd = -1;
	int r;

	if (ctl->remote.host)
		return remote_connect(&ctl->remote, ret, err);
	r = check_socket(ctl, err);
	if (r == 0)
		r = varlink_socket_connect(ctl->socket, 0, &fd, err);
	if (r == 0)
		r = varlink_socket_check_peer(fd, ctl->socket, ctl->trusted, err);
	if (r == 0)
		*ret = TAKE_FD(fd);
	return r;
}

int ctl_open(struct ctl *ctl, struct varlink_sync **ret, struct error *err)
{
	int fd, r = ctl_open_fd(ctl, &fd, err);

	return r < 0 ? r : varlink_sync_new_fd(fd, ret, err);
}

int ctl_connect(struct ctl *ctl, struct varlink_sync **ret)
{
	_cleanup_(varlink_sync_freep) struct varlink_sync *link = NULL;
	struct error err = { 0 };
	int r = ctl_open(ctl, &link, &err);

	if (r == 0)
		r = send_hello(ctl, link);
	else
		r = ctl_cannot_connect(ctl, r, &err);
	if (r == 0)
		*ret = TAKE_PTR(link);
	return r;
}

/* Prints a traceback, indented, with control characters made visible. */
static void print_details(FILE *f, const char *text)
{
	while (*text) {
		size_t n = strcspn(text, "\n");

		fputs("    ", f);
		printable_write(f, text, n);
		fputc('\n', f);
		text += n + (text[n] == '\n');
	}
}

/* Puts into err what an error means for people; keeps err's text for unknown ones. */
static void explain_error(const char *name, const json_t *p, struct error *err)
{
	const char *message = get_text(p, "message");

	if (message && *message)
		error_set(err, -EREMOTEIO, "%s", message);
	else if (!strcmp(name, "org.varlink.service.InvalidParameter"))
		error_set(err, -EINVAL, "elasticd does not take this value of %s",
			json_get_string(p, "parameter", "a parameter"));
	else if (!strcmp(name, "org.varlink.service.InterfaceNotFound"))
		error_set(err, -ENOSYS,
			"this elasticd does not serve %s; is it older than elasticctl?",
			json_get_string(p, "interface", "this interface"));
	else if (!strcmp(name, "org.varlink.service.MethodNotFound") ||
		 !strcmp(name, "org.varlink.service.MethodNotImplemented"))
		error_set(err, -ENOSYS,
			"this elasticd does not know %s; is it older than elasticctl?",
			json_get_string(p, "method", "this call"));
}

const char *ctl_error_name(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot && !strncmp(name, OURS, strlen(OURS)) ? dot + 1 : name;
}

/* "task 17 on worker:1: Internal: out of luck" of a TaskError. */
static void explain_task_error(const json_t *e, struct error *err)
{
	const char *worker = get_text(e, "worker"), *message = get_text(e, "message");
	bool task = has_value(e, "task");
	char what[32] = "";

	if (task)
		snprintf(what, sizeof(what), "task %" PRId64, get_int(e, "task"));
	error_set(err, -EREMOTEIO, "%s%s%s%s%s%s%s", what, task && worker ? " on " : "",
		worker ? worker : "", task || worker ? ": " : "", json_get_string(e, "code", "?"),
		message && *message ? ": " : "", message ? message : "");
}

/* The exit status for an error of the queue: the one that the service gives coordinators, if any.
 */
static int queue_status(const json_t *p)
{
	int code = (int)get_int(p, "exit_code");

	return code > 0 && code < 256 ? code : CTL_REFUSED;
}

int ctl_explain(const struct ctl *ctl, const char *name, const json_t *p, struct error *err)
{
	const char *brief = ctl_error_name(name);
	int status = CTL_REFUSED;

	if (!strcmp(brief, "QueueFailed")) {
		explain_task_error(json_object_get(p, "error"), err);
		status = queue_status(p);
	} else {
		explain_error(brief, p, err);
	}
	if (!err->text[0])
		error_set(err, -EREMOTEIO, "%s refused: %s", peer_name(ctl), brief);
	if (!strcmp(brief, "DeadlineExceeded"))
		status = CTL_TIMED_OUT;
	return status_of_failure(ctl, status);
}

int ctl_refused(
	const struct ctl *ctl, int status, const json_t *parameters, const struct error *err)
{
	const char *details = get_text(json_object_get(parameters, "error"), "details");

	ctl_error(ctl, status, "%s", err->text);
	if (details && *details)
		print_details(stderr, details);
	return status;
}

/* Waits until link may have input. Exits as a failed write would if the reader of our output is
 * gone. */
static void wait_with_reader(const struct varlink_sync *link, int64_t left)
{
	struct pollfd fds[2] = { { .fd = varlink_sync_fd(link), .events = POLLIN },
		{ .fd = STDOUT_FILENO } };

	if (poll(fds, 2, left > INT_MAX ? INT_MAX : (int)left) > 0 && fds[1].revents & POLLERR)
		raise(SIGPIPE);
}

void ctl_waiting(struct ctl *ctl, const char *fmt, ...)
{
	va_list ap;

	if (ctl->quiet || !isatty(STDERR_FILENO))
		return;
	va_start(ap, fmt);
	vsnprintf(ctl->waiting, sizeof(ctl->waiting), fmt, ap);
	va_end(ap);
	if (!ctl->waiting_ms)
		ctl->waiting_ms = (int64_t)monotonic_ms();
}

/* Draws the line if it is due. Returns the milliseconds until it is due again; -1: there is no
 * line.
 */
static int64_t draw_waiting(struct ctl *ctl)
{
	int64_t now_ms = monotonic_ms(), next_ms = ctl->waiting_ms + WAITING_MS;
	char line[224], took[TIME_TEXT_MAX];

	if (!ctl->waiting[0])
		return -1;
	if (ctl->waiting_drawn_ms + WAITING_MS > next_ms)
		next_ms = ctl->waiting_drawn_ms + WAITING_MS;
	if (next_ms > now_ms)
		return next_ms - now_ms;

	snprintf(line, sizeof(line), "Waiting %s for %s",
		time_text_since((now_ms - ctl->waiting_ms) / 1000 * 1000000, 0, took),
		ctl->waiting);

	screen_redraw(line);
	ctl->waiting_drawn_ms = now_ms;
	return WAITING_MS;
}

static void erase_waiting(struct ctl *ctl)
{
	if (ctl->waiting_drawn_ms)
		screen_redraw("");
	ctl->waiting_drawn_ms = 0;
}

/* Waits for input on link. Returns 0 or an exit status. */
static int wait_input(struct ctl *ctl, struct varlink_sync *link)
{
	for (;;) {
		int64_t left = ctl_left_ms(ctl), draw = draw_waiting(ctl);
		bool draws = draw >= 0 && (left < 0 || draw < left);
		int r;

		if (ctl->streams && varlink_sync_wait(link, 0) == 0) {
			wait_with_reader(link, left);
			left = ctl_left_ms(ctl);
		}
		if (draws)
			left = draw;
		r = varlink_sync_wait(link, left > INT_MAX ? INT_MAX : (int)left);
		if (r == 0 && draws)
			continue;
		if (r != -EINTR)
			erase_waiting(ctl);
		if (r == 1)
			return 0;
		if (r == 0)
			return ctl_timed_out(ctl);
		if (r != -EINTR)
			return report_break(ctl, strerror(-r));
	}
}

/* Receives one answer. Returns the service's errors in ret_error, prints others. */
static int receive_answer(struct ctl *ctl, struct varlink_sync *link, json_t **ret, bool *ret_more,
	char **ret_error, struct error *err)
{
	_cleanup_json_ json_t *parameters = NULL;
	_cleanup_free_ char *name = NULL;
	bool more = false;
	int r;

	do {
		r = wait_input(ctl, link);
		if (r != 0)
			return r;
		r = varlink_sync_receive(link, &parameters, &name, &more, err);
	} while (r == -EINTR);
	if (r == -EREMOTEIO && name) {
		r = ctl_explain(ctl, name, parameters, err);
		memmove(name, ctl_error_name(name), strlen(ctl_error_name(name)) + 1);
		*ret_error = TAKE_PTR(name);
		json_decref(ctl->refusal);
		ctl->refusal = TAKE_PTR(parameters);
		return r;
	}
	if (r < 0)
		return report_break(ctl, err->text[0] ? err->text : strerror(-r));
	if (answer_check(varlink_sync_method(link), parameters, err) < 0)
		return ctl_error(ctl, status_of_failure(ctl, CTL_REFUSED),
			"%s gave an answer that cannot be used: %s", peer_name(ctl), err->text);
	if (ret)
		*ret = TAKE_PTR(parameters);
	if (ret_more)
		*ret_more = more;
	return 0;
}

int ctl_send(struct ctl *ctl, struct varlink_sync *link, const char *method, json_t *parameters,
	bool more)
{
	struct error err = { 0 };
	char full[96];

	snprintf(full, sizeof(full), "%s%s", strchr(method, '.') ? "" : INTERFACE, method);
	if (varlink_sync_send(link, full, parameters, more, &err) == 0)
		return 0;
	return ctl_error(ctl, status_of_failure(ctl, CTL_NO_DAEMON), "cannot call %s: %s",
		peer_name(ctl), err.text);
}

/* In a worker, tells the agent who we are, by the token. */
static int send_hello(struct ctl *ctl, struct varlink_sync *link)
{
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_free_ char *name = NULL;
	struct error err = { 0 };
	int r;

	if (!ctl->token)
		return 0;
	r = ctl_send(ctl, link, "io.elasticd.Worker.Hello",
		ctl_with(json_object(), "token", json_string(ctl->token)), false);
	if (r == 0)
		r = receive_answer(ctl, link, &answer, NULL, &name, &err);
	return name ? ctl_error(ctl, r, "%s", err.text) : r;
}

int ctl_try(struct ctl *ctl, const char *method, json_t *parameters, json_t **ret, char **ret_error,
	struct error *err)
{
	int r = ctl->link ? 0 : ctl_connect(ctl, &ctl->link);

	if (r != 0) {
		json_decref(parameters);
		return r;
	}
	r = ctl_send(ctl, ctl->link, method, parameters, false);
	return r != 0 ? r : receive_answer(ctl, ctl->link, ret, NULL, ret_error, err);
}

int ctl_call(struct ctl *ctl, const char *method, json_t *parameters, json_t **ret)
{
	_cleanup_free_ char *name = NULL;
	struct error err = { 0 };
	int r = ctl_try(ctl, method, parameters, ret, &name, &err);

	return name ? ctl_refused(ctl, r, ctl->refusal, &err) : r;
}

int ctl_stream(struct ctl *ctl, const char *method, json_t *parameters, struct varlink_sync **ret)
{
	_cleanup_(varlink_sync_freep) struct varlink_sync *link = NULL;
	int r = ctl_connect(ctl, &link);

	if (r != 0) {
		json_decref(parameters);
		return r;
	}
	r = ctl_send(ctl, link, method, parameters, true);
	if (r == 0)
		*ret = TAKE_PTR(link);
	return r;
}

int ctl_next(struct ctl *ctl, struct varlink_sync *link, json_t **ret, bool *ret_more)
{
	_cleanup_free_ char *name = NULL;
	struct error err = { 0 };
	int r = receive_answer(ctl, link, ret, ret_more, &name, &err);

	return name ? ctl_error(ctl, r, "%s", err.text) : r;
}

int ctl_try_next(struct ctl *ctl, struct varlink_sync *link, json_t **ret, bool *ret_more,
	char **ret_error, struct error *err)
{
	return receive_answer(ctl, link, ret, ret_more, ret_error, err);
}

int ctl_ready(struct ctl *ctl, struct varlink_sync *a, struct varlink_sync *b, int limit_ms)
{
	struct varlink_sync *const links[2] = { a, b };
	int64_t left = ctl_left_ms(ctl);
	struct timespec limit;
	struct pollfd fds[2];
	int mask = 0;

	for (int i = 0; i < 2; i++) {
		fds[i] = (struct pollfd){ .fd = links[i] ? varlink_sync_fd(links[i]) : -1,
			.events = POLLIN };
		if (links[i] && varlink_sync_wait(links[i], 0) == 1)
			mask |= 1 << i;
	}
	if (limit_ms >= 0 && (left < 0 || left > limit_ms))
		left = limit_ms;
	if (mask)
		left = 0;
	limit = (struct timespec){ .tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000 };
	/* Checked even if a stream has input: interrupts are only let in here. */
	if (ppoll(fds, 2, left < 0 ? NULL : &limit, catching ? &mask_waiting : NULL) > 0)
		mask |= (fds[0].revents ? 1 : 0) | (fds[1].revents ? 2 : 0);
	return interrupted ? 0 : mask;
}
