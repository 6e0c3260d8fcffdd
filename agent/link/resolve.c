/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>

enum { STACK_BYTES = 512 * 1024 };

/* Shared by the caller and the thread; the last user frees it. */
struct lookup {
	atomic_int users;
	struct endpoint endpoint;
	int ready; /* an eventfd: the look-up is over */
	int code;  /* of getaddrinfo() */
	int errno_code;
	struct link_addresses found;
};

struct link_resolve {
	struct lookup *lookup;
	struct loop_fd *watch;
	link_resolve_fn fn;
	void *arg;
};

static void lookup_unref(struct lookup *l)
{
	if (atomic_fetch_sub(&l->users, 1) > 1)
		return;
	close_fd(l->ready);
	free(l);
}

static int look_up(struct lookup *l, int flags)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = flags }, *list;
	char port[8];
	int code;

	snprintf(port, sizeof(port), "%d", l->endpoint.port);
	code = getaddrinfo(l->endpoint.host, port, &hints, &list);
	l->errno_code = errno;
	if (code)
		return code;
	for (struct addrinfo *a = list; a && l->found.n < LINK_ADDRESSES_MAX; a = a->ai_next)
		if (a->ai_family == AF_INET || a->ai_family == AF_INET6)
			memcpy(&l->found.at[l->found.n++], a->ai_addr, a->ai_addrlen);
	freeaddrinfo(list);
	return 0;
}

static void lookup_report(const struct lookup *l)
{
	(void)!eventfd_write(l->ready, 1);
}

static void *lookup_thread(void *arg)
{
	struct lookup *l = arg;

	l->code = look_up(l, AI_NUMERICSERV);
	lookup_report(l);
	lookup_unref(l);
	return NULL;
}

static int start_thread(struct lookup *l)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;
	int r = pthread_attr_init(&attr);

	if (r)
		return -r;
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	/* Signals go to the thread of the loop. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	atomic_fetch_add(&l->users, 1);
	r = pthread_create(&thread, &attr, lookup_thread, l);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (r)
		atomic_fetch_sub(&l->users, 1);
	return -r;
}

static void on_ready(int fd, int events, void *arg)
{
	struct link_resolve *r = arg;
	struct lookup *l = r->lookup;
	struct error err = { 0 };
	eventfd_t n;

	(void)!eventfd_read(fd, &n);
	r->watch = loop_fd_free(r->watch);
	if (l->code || !l->found.n)
		error_field(&err, -EHOSTUNREACH, LINK_ENDPOINT_FIELD, "%s: %s", l->endpoint.host,
			l->code == EAI_SYSTEM ? strerror(l->errno_code)
			: l->code	      ? gai_strerror(l->code)
					      : "it has no address");
	r->fn(r->arg, &l->found, err.code ? &err : NULL);
}

int link_resolve_new(struct loop *loop, const struct endpoint *e, link_resolve_fn fn, void *arg,
	struct link_resolve **ret)
{
	_cleanup_(link_resolve_freep) struct link_resolve *r = calloc(1, sizeof(*r));
	struct lookup *l = calloc(1, sizeof(*l));
	int code = -ENOMEM;

	if (!r || !l) {
		free(l);
		return -ENOMEM;
	}
	*l = (struct lookup){ .endpoint = *e, .ready = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	atomic_init(&l->users, 1);
	*r = (struct link_resolve){ .lookup = l, .fn = fn, .arg = arg };
	if (l->ready < 0)
		return -errno;
	code = loop_fd_new(loop, l->ready, LOOP_READ, on_ready, r, &r->watch);
	if (code < 0)
		return code;
	l->code = look_up(l, AI_NUMERICHOST | AI_NUMERICSERV);
	if (l->code == EAI_NONAME)
		code = start_thread(l);
	else
		lookup_report(l);
	if (code < 0)
		return code;
	*ret = TAKE_PTR(r);
	return 0;
}

struct link_resolve *link_resolve_free(struct link_resolve *r)
{
	if (!r)
		return NULL;
	loop_fd_free(r->watch);
	if (r->lookup)
		lookup_unref(r->lookup);
	free(r);
	return NULL;
}
