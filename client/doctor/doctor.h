/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by the files of this room:
 *
 *   doctor.c            the order of the groups of checks; prints what they find
 *   host.c              the order of the checks of this host; programs, secrets, clock, name
 *   affinity.c          whether workers can be bound to CPUs
 *   limits.c            open files, processes, memory, control groups
 *   directories.c       state and log directories, shared memory
 *   names.c             the endpoint's addresses, and this host's
 *   addresses.c         looks names up
 *   etcd.c              etcd: version, leader, room, rights, latency
 *   etcd_wait.c         calls to etcd, one after the other
 *   meeting.c           several hosts: how this one finds the others
 *   meeting_head.c      the host at which they meet
 *   meeting_etcd.c      which host that is, where etcd says it
 *   meeting_findings.c  prints whether they met and reach each other
 *   probe.c             tries the way to another host
 *
 * Called by the verb alone. A look-up of a name blocks; all else that waits is in a loop.
 */

#include "client/base/ctl.h"
#include "common/loop/loop.h"
#include "common/spec/spec.h"

#include <jansson.h>
#include <stdbool.h>
#include <sys/socket.h>

enum { DOCTOR_ADDRESSES_MAX = 16, DOCTOR_TEXT_MAX = 1024 };

struct doctor_addresses {
	size_t n;
	struct sockaddr_storage at[DOCTOR_ADDRESSES_MAX];
};

struct doctor {
	struct ctl *ctl;
	const struct spec *spec;
	int64_t wait_ms; /* for other hosts; 0: none are waited for */
	struct loop *loop;
	json_t *checks;
	int problems, warnings;
	char host[256];
	/* names.c: where hosts meet (etcd: the first of its endpoints that has addresses), "" and
	 * none on one host or where it cannot be known; and the address under which others reach
	 * this host. */
	char endpoint[272];
	struct doctor_addresses at;
	char address[256];
};

enum doctor_state { DOCTOR_OK, DOCTOR_WARNING, DOCTOR_PROBLEM };

/* Prints what a check has found. about: the directory, endpoint or host, or NULL; advice: what to
 * change, or NULL. */
void doctor_found(struct doctor *d, enum doctor_state state, const char *check, const char *about,
	const char *advice, const char *fmt, ...) __attribute__((format(printf, 6, 7)));

/* For the verb: all checks that the specification asks for. Returns an exit status. */
int doctor_run(struct ctl *ctl, const struct spec *spec, int64_t wait_ms);

bool doctor_several_hosts(const struct doctor *d);
/* host.c, limits.c, affinity.c, directories.c */
void doctor_check_host(struct doctor *d);
void doctor_check_limits(struct doctor *d);
void doctor_check_affinity(struct doctor *d);
void doctor_check_directories(struct doctor *d);

/* names.c */
void doctor_check_names(struct doctor *d);

/* addresses.c: NULL, or why there are none. */
const char *doctor_look_up(const char *host, int port, struct doctor_addresses *ret);
bool doctor_is_loopback(const struct sockaddr *a);
/* "10.0.0.1, fd00::1", without ports. */
void doctor_addresses_text(const struct doctor_addresses *a, char *text, size_t size);

/* etcd.c: returns whether etcd can be used. */
bool doctor_check_etcd(struct doctor *d);
/* How long one request may take: as the group's own requests. */
int64_t doctor_etcd_limit_ms(const struct doctor *d);

/* meeting.c */
void doctor_check_meeting(struct doctor *d);
