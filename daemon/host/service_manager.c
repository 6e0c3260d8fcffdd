/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/host/service_manager.h"

#include <errno.h>
#include <string.h>

#if HAVE_SYSTEMD
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-journal.h>

struct notify {
	bool wanted;
	char *status;
	struct loop_timer *watchdog;
	uint64_t period_ms;
};

static void on_watchdog(void *arg)
{
	struct notify *n = arg;

	sd_notify(0, "WATCHDOG=1");
	loop_timer_arm(n->watchdog, n->period_ms);
}

int notify_new(struct loop *loop, struct notify **ret)
{
	_cleanup_(notify_freep) struct notify *n = calloc(1, sizeof(*n));
	uint64_t watchdog_us = 0;
	int r;

	if (!n)
		return -ENOMEM;
	n->wanted = getenv("NOTIFY_SOCKET") != NULL;
	if (sd_watchdog_enabled(0, &watchdog_us) > 0 && watchdog_us) {
		r = loop_timer_new(loop, on_watchdog, n, &n->watchdog);
		if (r < 0)
			return r;
		n->period_ms = watchdog_us / 2000;
		loop_timer_arm(n->watchdog, n->period_ms);
	}
	*ret = TAKE_PTR(n);
	return 0;
}

struct notify *notify_free(struct notify *n)
{
	if (!n)
		return NULL;
	loop_timer_free(n->watchdog);
	free(n->status);
	free(n);
	return NULL;
}

void notify_ready(struct notify *n)
{
	if (n->wanted)
		sd_notify(0, "READY=1");
}

void notify_reloading(struct notify *n)
{
	if (n->wanted)
		sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu",
			(unsigned long long)loop_now_ms() * 1000);
}

void notify_stopping(struct notify *n)
{
	if (n->wanted)
		sd_notify(0, "STOPPING=1");
}

void notify_extend(struct notify *n, uint64_t ms)
{
	if (n->wanted)
		sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%llu", (unsigned long long)ms * 1000);
}

void notify_status(struct notify *n, const char *text)
{
	if (!n->wanted || (n->status && !strcmp(n->status, text)))
		return;
	free(n->status);
	n->status = strdup(text);
	sd_notifyf(0, "STATUS=%s", text);
}

int notify_sockets(int *ret_first)
{
	int n = sd_listen_fds(1);

	for (int i = 0; i < n; i++)
		if (sd_is_socket_unix(SD_LISTEN_FDS_START + i, SOCK_STREAM, 1, NULL, 0) <= 0)
			return -ENOTSOCK;
	*ret_first = SD_LISTEN_FDS_START;
	return n;
}

/* One MESSAGE_ID for each kind of event, to search for: journalctl MESSAGE_ID=... The journal's
 * catalog (etc/elasticd.catalog) explains each. A name with a colon has the result of the run. */
#define EVENT_IDS(X)                                             \
	X("agent-given-up", "e46d98bf3df04f71ba05c16bece0d6fb")  \
	X("agent-lost", "8b792d095bc042a58a631612196cd2b1")      \
	X("backoff", "14ff8b9680b3448c88503fb342fc3cb2")         \
	X("ended", "eef131925d4142c085a4299a0042698c")           \
	X("ended:failed", "b527bef9170e4c3faf8fb233a78481a2")    \
	X("ended:preempted", "b17f719ea0554ad397242aa6153b4e8a") \
	X("ended:timeout", "a8bd2632b8ea480c94f68f78c45c2fde")   \
	X("killed", "26cb8772d58b462998d6ea37b9edb93f")          \
	X("out-of-memory", "9e280f8639ea4b32ad99b2231facd545")   \
	X("signalled", "9e255f4d700546ccaf631c62fcf64a8a")       \
	X("started", "92f0ff11cce245149c934624f9d6d458")         \
	X("state", "6c4782e42c064ed7b8c6804a9128bb52")           \
	X("stop", "25962bc853ed43e09c54bb38fcb18085")            \
	X("worker-failed", "04d2ce30952e4afbb11a9f9ab4b529ee")   \
	X("timeout", "9c03055b683d42388922fb1165c98163")

static const char *field_of(const struct log_field *fields, const char *name)
{
	for (; fields && fields->name; fields++)
		if (!strcmp(fields->name, name))
			return fields->value;
	return NULL;
}

static const char *message_id(const struct log_field *fields)
{
#define EVENT_ID(name, id) { name, id },
	static const struct {
		const char *event, *id;
	} ids[] = { EVENT_IDS(EVENT_ID) };
	const char *event = field_of(fields, "ELASTICD_EVENT");
	const char *result = field_of(fields, "ELASTICD_RESULT");
	const char *found = NULL;
	char both[64];

	if (!event)
		return NULL;
	snprintf(both, sizeof(both), "%s:%s", event, result ? result : "");
	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++)
		if (!strcmp(ids[i].event, both) || (!found && !strcmp(ids[i].event, event)))
			found = ids[i].id;
	return found;
}

enum { FIELDS_MAX = 12, FIELD_BYTES = 512 };

static void to_journal(int level, const char *text, const struct log_field *fields)
{
	char store[FIELDS_MAX][FIELD_BYTES];
	char message[2304];
	struct iovec iov[FIELDS_MAX + 1];
	const char *id = message_id(fields);
	int n = 0;
	int len = snprintf(message, sizeof(message), "MESSAGE=%s", text);

	iov[0] = (struct iovec){ message,
		len < (int)sizeof(message) ? (size_t)len : sizeof(message) - 1 };
	snprintf(store[n++], FIELD_BYTES, "PRIORITY=%d", level);
	snprintf(store[n++], FIELD_BYTES, "SYSLOG_IDENTIFIER=elasticd");
	if (id)
		snprintf(store[n++], FIELD_BYTES, "MESSAGE_ID=%s", id);
	for (; fields && fields->name && n < FIELDS_MAX; fields++)
		snprintf(store[n++], FIELD_BYTES, "%s=%s", fields->name, fields->value);
	for (int i = 0; i < n; i++)
		iov[i + 1] = (struct iovec){ store[i], strlen(store[i]) };
	sd_journal_sendv(iov, n + 1);
}

void notify_use_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device;
	unsigned long long inode;
	struct stat st;

	if (!stream || sscanf(stream, "%llu:%llu", &device, &inode) != 2 ||
		fstat(STDERR_FILENO, &st) < 0)
		return;
	/* If standard error was redirected since, the user wants messages there. */
	if (st.st_dev == device && st.st_ino == inode)
		log_set_sink(to_journal, 1);
}

#else

struct notify {
	char unused;
};

int notify_new(struct loop *loop, struct notify **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

struct notify *notify_free(struct notify *n)
{
	free(n);
	return NULL;
}

void notify_ready(struct notify *n)
{
}

void notify_reloading(struct notify *n)
{
}

void notify_stopping(struct notify *n)
{
}

void notify_extend(struct notify *n, uint64_t ms)
{
}

void notify_status(struct notify *n, const char *text)
{
}

int notify_sockets(int *ret_first)
{
	return 0;
}

void notify_use_journal(void)
{
}

#endif
