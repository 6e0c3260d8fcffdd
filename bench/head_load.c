/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Speaks for all hosts of a group but the head's own: head_load SPEC PORT PID connects each of them
 * to the head, which listens at that port of 127.0.0.1, and whose agent is process PID. SPEC is the
 * group's job specification, in a file. Each line of its input is one step; when the step is done
 * it prints
 *
 *   STEP WALL_MS HEAD_MS OWN_MS MESSAGES BYTES
 *
 * the time that the step took, the processor time of the head's agent and of this program, and what
 * this program's hosts and the head have said to each other, beats and handshakes apart:
 *
 *   join     connect all hosts, and have all but the last join; until they are members
 *   start    the last one joins; until the last Start
 *   arrive   all workers but the last call a barrier; until the head has all calls
 *   barrier  the last one calls it; until the last answer
 *   read     all workers wait for a key; until the head has all calls
 *   put      one of them puts that key; until the last answer
 *   fail     a worker has failed; until the last Stop
 *   again    no worker lives any more; until the last Start of the next attempt
 *   notice   a host has a notice of preemption; until all have said how far their workers are
 *   step     all workers ask what to do at their next step; until the last answer
 *   stop     an operator stops the group; until the last Stop
 *   end      no worker lives any more; until the last End
 *   leave    all hosts but the last leave; until the head has dropped them
 *
 * At the end of its input the last host leaves, too, after which the head's agent ends.
 *
 * Messages are written and read as the head writes and reads them, but not checked: what this
 * program costs must not show in wall time.
 */

#include "agent/hosts/settings.h"
#include "agent/link/channel.h"
#include "agent/link/link.h"
#include "agent/link/message.h"
#include "agent/link/window.h"
#include "common/base/clock.h"
#include "common/spec/spec.h"
#include "common/text/json.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum {
	ON_THE_WAY = 32, /* hosts that connect, or join, at once: a head holds 64 */
	BEATS_PER_LEASE = 5,
	FILL_BYTES = 256 << 10,
	SHUFFLE = 7919, /* a prime number */
	LAST_STEP = 5,	/* that each worker has begun */
};

/* A step waits for one of these from each host; for ANSWERS to each call. */
enum what { LINKED, SAMPLED, STARTS, ACKED, ANSWERS, STOPS, ENDS, GONE };

struct host {
	int index;  /* in the order of connecting */
	int number; /* of its name: hosts join in any order */
	struct link_channel *channel;
	struct link_window window;
	struct varlink_buffer control; /* messages without a number */
	struct loop_timer *beat;
	bool linked, left;
	bool sent; /* an acknowledgement counts for the step */
	int64_t round;
	int first_rank, first_index;
	bool master;
};

struct step {
	const char *name;
	enum what waits_for;
	void (*begin)(void);
};

static struct loop *loop;
static struct spec *spec;
static char *settings; /* the digest that the head has to say */
static clockid_t head_clock;
static int port, n_hosts, n_workers; /* workers of one host */
static struct host *hosts;
static int next_host; /* to connect */
static int64_t attempt = -1;
static struct loop_fd *input;

static struct {
	const struct step *step; /* NULL: none */
	int got, want;
	int64_t wall_us, head_us, own_us; /* when it began */
	long messages, bytes;
} now;

static _Noreturn __attribute__((format(printf, 1, 2))) void fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

static int64_t clock_us(clockid_t clock)
{
	struct timespec ts;

	if (clock_gettime(clock, &ts) < 0)
		fail("the head's agent: %s", strerror(errno));
	return ts.tv_sec * INT64_C(1000000) + ts.tv_nsec / 1000;
}

/* --- messages --- */

static __attribute__((format(printf, 3, 4))) void say(
	struct host *h, const char *method, const char *fmt, ...)
{
	_cleanup_free_ char *body = NULL;
	va_list ap;
	size_t before;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&body, fmt, ap);
	va_end(ap);
	before = link_window_bytes(&h->window);
	if (n < 0 || link_window_write(&h->window, method, body, (size_t)n) < 0)
		fail("out of memory");
	now.messages++;
	now.bytes += (long)(link_window_bytes(&h->window) - before);
	link_channel_kick(h->channel);
}

static void say_control(struct host *h, const char *method, int64_t ack, const char *body)
{
	if (link_message_write(&h->control, method, 0, ack, body, strlen(body)) < 0)
		fail("out of memory");
	link_channel_kick(h->channel);
}

static void say_hello(struct host *h)
{
	char body[1024];

	snprintf(body, sizeof(body),
		"{\"major\":%d,\"minor\":%d,\"group\":\"%s\",\"agent\":\"agent%d\",\"boot\":\"boot%d\","
		"\"host\":\"load%d\",\"version\":\"%s\",\"session\":\"%032d\",\"resume\":0}",
		LINK_MAJOR, LINK_MINOR, spec->rendezvous.id, h->index, h->index, h->number, VERSION,
		h->index);
	say_control(h, "Hello", -1, body);
}

static void say_join(struct host *h)
{
	say(h, "Join",
		"{\"run\":\"load_%08d\",\"address\":\"127.0.0.1\",\"roles\":[{\"role\":\"%s\","
		"\"replicas\":%d}],\"known_round\":0,\"attempts\":0,\"restarts\":0}",
		h->index, spec->roles[0].name, n_workers);
}

static void say_beat(void *arg)
{
	struct host *h = arg;
	char body[128];

	snprintf(body, sizeof(body), "{\"boot_us\":%" PRId64 ",\"time_us\":%" PRIu64 "}",
		boottime_us(), loop_real_us());
	say_control(h, "Beat", h->window.seen, body);
	loop_timer_arm(h->beat, (uint64_t)spec->rendezvous.lease_ms / BEATS_PER_LEASE);
}

/* A worker's connection with the head in this attempt; that of worker n_workers is a second one of
 * the first worker. */
static void say_call(struct host *h, int worker, const char *method, const char *parameters)
{
	say(h, "Call",
		"{\"round\":%" PRId64 ",\"connection\":%" PRId64
		",\"worker\":\"%s:%d\",\"message\":{\"method\":\"io.elasticd.Worker.%s\","
		"\"parameters\":%s}}",
		h->round, 1 + attempt * (n_workers + 1) + worker, spec->roles[0].name,
		h->first_index + worker % n_workers, method, parameters);
}

static void say_prepared(struct host *h)
{
	if (h->master)
		say(h, "Prepared",
			"{\"round\":%" PRId64
			",\"master_addr\":\"127.0.0.1\",\"master_port\":29500}",
			h->round);
	else
		say(h, "Prepared", "{\"round\":%" PRId64 "}", h->round);
}

/* --- steps --- */

static void step_count(enum what what)
{
	if (!now.step || now.step->waits_for != what || ++now.got < now.want)
		return;
	printf("%s %.3f %.3f %.3f %ld %ld\n", now.step->name,
		(double)(clock_us(CLOCK_MONOTONIC) - now.wall_us) / 1e3,
		(double)(clock_us(head_clock) - now.head_us) / 1e3,
		(double)(clock_us(CLOCK_PROCESS_CPUTIME_ID) - now.own_us) / 1e3, now.messages,
		now.bytes);
	fflush(stdout);
	now.step = NULL;
	if (loop_fd_set(input, LOOP_READ) < 0)
		fail("cannot wait for the next step");
}

static struct host *last_host(void)
{
	return &hosts[n_hosts - 1];
}

static void connect_next(void);

static void begin_join(void)
{
	/* The last one only connects. */
	now.want = n_hosts;
	for (int i = 0; i < ON_THE_WAY; i++)
		connect_next();
}

static void begin_start(void)
{
	say_join(last_host());
}

static void call_all(const char *method, const char *parameters, int calls)
{
	for (int i = 0; i < calls; i++) {
		hosts[i / n_workers].sent = true;
		say_call(&hosts[i / n_workers], i % n_workers, method, parameters);
	}
}

static void begin_arrive(void)
{
	now.want = n_workers > 1 ? n_hosts : n_hosts - 1;
	call_all("Barrier", "{\"name\":\"all\"}", n_hosts * n_workers - 1);
}

static void begin_barrier(void)
{
	now.want = n_hosts * n_workers;
	say_call(last_host(), n_workers - 1, "Barrier", "{\"name\":\"all\"}");
}

static void begin_read(void)
{
	call_all("Get", "{\"key\":\"k\",\"wait\":true}", n_hosts * n_workers);
}

static void begin_put(void)
{
	now.want = n_hosts * n_workers + 1; /* the put's answer, too */
	say_call(last_host(), n_workers, "Put", "{\"key\":\"k\",\"value\":\"v\"}");
}

/* Writes a Failure of a worker; the others' are collateral. Returns its length. */
static int failure_text(const struct host *h, int worker, bool collateral, char *text, size_t size)
{
	return snprintf(text, size,
		"{\"role\":\"%s\",\"index\":%d,\"rank\":%d,\"local_rank\":%d,\"host\":\"load%d\","
		"\"attempt\":0,\"time_us\":%" PRIu64
		",\"class\":\"exit\",\"exit\":{%s},\"message\":\"%s\",\"collateral\":%s}",
		spec->roles[0].name, h->first_index + worker, h->first_rank + worker, worker,
		h->number, loop_real_us(),
		collateral ? "\"signal\":15,\"signal_name\":\"SIGTERM\"" : "\"code\":1",
		collateral ? "Signal 15 (SIGTERM) received by PID 4711" : "exited with code 1",
		collateral ? "true" : "false");
}

static void begin_fail(void)
{
	struct host *h = last_host();
	char failure[1024];

	failure_text(h, 0, false, failure, sizeof(failure));
	say(h, "Report",
		"{\"round\":%" PRId64 ",\"worker\":\"%s:%d\",\"rank\":%d,\"start\":0,\"event\":"
		"\"exited\",\"time_us\":%" PRIu64 ",\"exit\":{\"code\":1},\"state\":\"failed\"}",
		h->round, spec->roles[0].name, h->first_index, h->first_rank, loop_real_us());
	say(h, "Report",
		"{\"round\":%" PRId64 ",\"worker\":\"%s:%d\",\"rank\":%d,\"start\":0,\"event\":"
		"\"failed\",\"time_us\":%" PRIu64 ",\"failure\":%s}",
		h->round, spec->roles[0].name, h->first_index, h->first_rank, loop_real_us(),
		failure);
}

/* A host tells of workers that were stopped for one that failed there. */
static void say_gone(struct host *h)
{
	size_t size = (size_t)n_workers * 1024, len = 0;
	_cleanup_free_ char *failures = malloc(size);

	if (!failures)
		fail("out of memory");
	failures[0] = '\0';
	for (int i = 0; i < n_workers && h == last_host(); i++) {
		if (i)
			failures[len++] = ',';
		len += (size_t)failure_text(h, i, true, failures + len, size - len);
	}
	say(h, "Gone", "{\"round\":%" PRId64 ",\"failures\":[%s]}", h->round, failures);
}

static void begin_gone(void)
{
	for (int i = 0; i < n_hosts; i++)
		say_gone(&hosts[i]);
}

static void begin_notice(void)
{
	say(last_host(), "Notice", "{\"source\":\"head_load\",\"reason\":\"a test\"}");
}

static void begin_step(void)
{
	char step[64];

	snprintf(step, sizeof(step), "{\"step\":%d}", LAST_STEP + 1);
	now.want = n_hosts * n_workers;
	call_all("Step", step, n_hosts * n_workers);
}

static void begin_stop(void)
{
	say(last_host(), "Ask", "{\"want\":\"stop\",\"text\":\"stopped by head_load\"}");
}

static void say_bye(struct host *h)
{
	h->left = h->sent = true;
	say(h, "Bye", "{}");
}

static void begin_leave(void)
{
	now.want = n_hosts - 1;
	for (int i = 0; i < n_hosts - 1; i++)
		say_bye(&hosts[i]);
}

static const struct step steps[] = {
	{ "join", LINKED, begin_join },
	{ "start", STARTS, begin_start },
	{ "arrive", ACKED, begin_arrive },
	{ "barrier", ANSWERS, begin_barrier },
	{ "read", ACKED, begin_read },
	{ "put", ANSWERS, begin_put },
	{ "fail", STOPS, begin_fail },
	{ "again", STARTS, begin_gone },
	{ "notice", SAMPLED, begin_notice },
	{ "step", ANSWERS, begin_step },
	{ "stop", STOPS, begin_stop },
	{ "end", ENDS, begin_gone },
	{ "leave", GONE, begin_leave },
};

static void step_begin(const char *name)
{
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (strcmp(steps[i].name, name) != 0)
			continue;
		now.step = &steps[i];
		now.got = 0;
		now.want = n_hosts;
		now.messages = now.bytes = 0;
		now.wall_us = clock_us(CLOCK_MONOTONIC);
		now.head_us = clock_us(head_clock);
		now.own_us = clock_us(CLOCK_PROCESS_CPUTIME_ID);
		steps[i].begin();
		return;
	}
	fail("expected a step, got \"%s\"", name);
}

static void on_input(int fd, int events, void *arg)
{
	char name[32];

	if (loop_fd_set(input, 0) < 0)
		fail("cannot stop to wait for steps");
	if (!fgets(name, sizeof(name), stdin)) {
		say_bye(last_host());
		return;
	}
	name[strcspn(name, "\n")] = '\0';
	step_begin(name);
}

/* --- what the head says --- */

/* The number behind a key, which stands there as the head writes it; or without. */
static int64_t number_of(const char *text, const char *key, int64_t without)
{
	const char *at = strstr(text, key);

	return at ? strtoll(at + strlen(key), NULL, 10) : without;
}

static void hear_assign(struct host *h, const char *text)
{
	h->round = number_of(text, "\"round\":", 0);
	h->first_rank = (int)number_of(text, "\"rank\":", -1);
	h->first_index = (int)number_of(text, "\"role_rank\":", -1);
	h->master = strstr(text, "\"master\":true");
	if (h->index == 0)
		attempt = number_of(text, "\"attempt\":", 0);
	if (h->first_rank < 0 || h->first_index < 0)
		fail("expected ranks: %s", text);
	say_prepared(h);
}

static void hear_read(struct host *h, const char *text)
{
	size_t size = (size_t)n_workers * 512, len = 0;
	_cleanup_free_ char *samples = malloc(size);

	if (!samples)
		fail("out of memory");
	for (int i = 0; i < n_workers; i++)
		len += (size_t)snprintf(samples + len, size - len,
			"%s{\"worker\":\"%s:%d\",\"stepped\":true,\"connected\":true,\"step\":%d,"
			"\"steps\":%d}",
			i ? "," : "", spec->roles[0].name, h->first_index + i, LAST_STEP,
			LAST_STEP);
	say(h, "Samples", "{\"number\":%" PRId64 ",\"samples\":[%s]}",
		number_of(text, "\"number\":", 0), samples);
	step_count(SAMPLED);
}

static void hear_answer(const char *text)
{
	if (strstr(text, "\"error\":"))
		fail("expected an answer without an error, got %s", text);
	step_count(ANSWERS);
}

static void hear_welcome(struct host *h, const char *text)
{
	if (!strstr(text, settings))
		fail("expected the settings %s: %s", settings, text);
	h->linked = true;
	say_beat(h);
	if (h == last_host())
		step_count(LINKED);
	else
		say_join(h);
}

static void hear_numbered(struct host *h, const char *method, const char *text)
{
	if (!strcmp(method, "Answer")) {
		hear_answer(text);
	} else if (!strcmp(method, "Read")) {
		hear_read(h, text);
	} else if (!strcmp(method, "Admitted")) {
		step_count(LINKED);
		connect_next();
	} else if (!strcmp(method, "Assign")) {
		hear_assign(h, text);
	} else if (!strcmp(method, "Start")) {
		say(h, "Started", "{\"round\":%" PRId64 ",\"time_us\":%" PRIu64 "}", h->round,
			loop_real_us());
		step_count(STARTS);
	} else if (!strcmp(method, "Stop")) {
		step_count(STOPS);
	} else if (!strcmp(method, "End")) {
		step_count(ENDS);
	} else if (strcmp(method, "Board") != 0) {
		fail("expected another message, got %s", text);
	}
}

/* Reads n and ack, which begin the parameters. */
static void hear_numbers(struct host *h, const char *text, size_t len, int64_t *ret_n)
{
	static const char begin[] = "\"parameters\":{";
	const char *at = strstr(text, begin);
	struct error err = { 0 };
	int64_t n = 0, ack = -1;

	if (!at)
		fail("expected parameters: %s", text);
	at += strlen(begin);
	if (sscanf(at, "\"n\":%" SCNd64 ",\"ack\":%" SCNd64, &n, &ack) == 0)
		sscanf(at, "\"ack\":%" SCNd64, &ack);
	if (link_window_receive(&h->window, n, ack, len, &err) < 0)
		fail("%s: %s", err.text, text);
	*ret_n = n;
}

/* The head has all that this host has sent. */
static void hear_all_acked(struct host *h)
{
	h->sent = false;
	step_count(h->left ? GONE : ACKED);
	if (h->left && h == last_host())
		loop_quit(loop, 0);
}

static void on_message(void *arg, const char *text, size_t len)
{
	static const char begin[] = "{\"method\":\"io.elasticd.Peer.";
	struct host *h = arg;
	char method[32] = "";
	int64_t n = 0;

	if (strncmp(text, begin, strlen(begin)) != 0 ||
		sscanf(text + strlen(begin), "%31[A-Za-z]", method) != 1)
		fail("expected a message of io.elasticd.Peer, got %s", text);
	if (!strcmp(method, "Refuse"))
		fail("a host was refused: %s", text);
	if (!h->linked) {
		hear_welcome(h, text);
		return;
	}
	hear_numbers(h, text, len, &n);
	if (n) {
		now.messages++;
		now.bytes += (long)len + 1;
		hear_numbered(h, method, text);
	}
	if (h->sent && !link_window_bytes(&h->window))
		hear_all_acked(h);
}

static int on_fill(void *arg, struct varlink_buffer *out)
{
	struct host *h = arg;
	int r = varlink_buffer_move(out, &h->control);

	return r < 0 || !h->linked ? r : link_window_take(&h->window, out, FILL_BYTES);
}

static void on_ended(void *arg, const struct error *err)
{
	struct host *h = arg;

	if (!h->left)
		fail("host %d: %s", h->index, err->text);
	loop_timer_disarm(h->beat);
	if (h->sent)
		hear_all_acked(h);
}

static void connect_next(void)
{
	static const struct link_channel_events events = {
		.message = on_message, .fill = on_fill, .ended = on_ended
	};
	struct sockaddr_in to = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct host *h = &hosts[next_host];
	int fd;

	if (next_host == n_hosts)
		return;
	h->index = next_host++;
	h->number = (int)((int64_t)h->index * SHUFFLE % n_hosts);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		fail("host %d: %s", h->index, strerror(errno));
	link_channel_tune(fd, 0);
	if (link_channel_new(loop, fd, LINK_MESSAGE_BYTES, &events, h, &h->channel) < 0 ||
		loop_timer_new(loop, say_beat, h, &h->beat) < 0)
		fail("out of memory");
	say_hello(h);
}

/* --- the program --- */

static void read_spec(const char *path)
{
	_cleanup_json_ json_t *doc = NULL, *list = NULL;
	struct error err = { 0 };

	if (json_read_file(path, 0, &doc, &err) < 0 || spec_parse(doc, &spec, &err) < 0)
		fail("%s", err.text);
	list = settings_of(spec);
	settings = list ? settings_digest(list) : NULL;
	if (!settings)
		fail("out of memory");
	n_hosts = spec->rendezvous.nodes_max - 1;
	n_workers = spec->roles[0].replicas;
}

static void raise_descriptors(void)
{
	struct rlimit l;
	rlim_t need = (rlim_t)n_hosts + 32;

	getrlimit(RLIMIT_NOFILE, &l);
	if (l.rlim_max < need)
		fail("%llu descriptors are needed, the limit is %llu", (unsigned long long)need,
			(unsigned long long)l.rlim_max);
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l);
}

int main(int argc, char **argv)
{
	int r;

	if (argc != 4)
		fail("usage: head_load SPEC PORT PID");
	read_spec(argv[1]);
	port = atoi(argv[2]);
	r = clock_getcpuclockid((pid_t)atoi(argv[3]), &head_clock);
	if (r)
		fail("the head's agent: %s", strerror(r));
	raise_descriptors();
	hosts = calloc((size_t)n_hosts, sizeof(*hosts));
	if (!hosts || n_hosts < 1 || loop_new(&loop) < 0 ||
		loop_fd_new(loop, STDIN_FILENO, LOOP_READ, on_input, NULL, &input) < 0)
		fail("expected a group of two hosts at least, and memory");
	setvbuf(stdin, NULL, _IONBF, 0);
	return loop_run(loop) < 0;
}
