/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The commons of a group of several hosts, in its head: the workers of all hosts, as the head hears
 * of them, and their calls, which the members relay (relay.h). No socket: each connection of a
 * worker with its own agent is one here, too (varlink_carried_new()).
 */

#include "agent/policy/group_machine.h"
#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hosts_lead;
struct store;
struct supervisor;
struct sharing_group;
struct sharing_host;

/* The way to one member; arg: as given for that host. */
struct sharing_downlink {
	/* As struct calls_way's; sharing_host_ready() says when there is room. */
	int (*send)(void *arg, const char *method, const char *body, size_t len);
	bool (*congested)(void *arg);
	/* Decides about failures whose decision has waited. */
	void (*decide)(void *group_arg);
	/* On a notice of preemption all workers have left, or are to be stopped. done: all have
	 * succeeded. */
	void (*preempted)(void *group_arg, const char *why, bool done);
	/* A host has not answered for a lease: ends its link. */
	void (*silent)(void *arg);
	/* Its name, borrowed until the next call. */
	const char *(*name)(void *arg);
	void *group_arg;
};

/* sv: the agent that leads, for its loop, specification and features. 0, -ENOMEM with err. */
_must_check_ int sharing_group_new(struct supervisor *sv, const struct sharing_downlink *down,
	struct sharing_group **ret, struct error *err);
struct sharing_group *sharing_group_free(struct sharing_group *g); /* its hosts are gone */
DEFINE_CLEANUP(struct sharing_group *, sharing_group_free)

/* This agent leads from now on, until the group is freed; lead: all but its commons. */
void sharing_group_lead(struct sharing_group *g, const struct hosts_lead *lead);
/* Answers that have waited may leave. */
void sharing_group_kept(struct sharing_group *g);

/* A host that has a link; NULL without memory. */
struct sharing_host *sharing_host_new(struct sharing_group *g, void *arg);
void sharing_host_ready(struct sharing_host *x);
/* It is gone: its connections end. */
struct sharing_host *sharing_host_free(struct sharing_host *x);

/* A new attempt: sharing_group_place() follows for all its workers, then sharing_group_start(). */
_must_check_ int sharing_group_begin(struct sharing_group *g, int attempt, int n_workers);
/* n workers of that role on that host, from the given rank and index on. A host's ranks have no
 * gap. */
_must_check_ int sharing_group_place(struct sharing_group *g, struct sharing_host *x, size_t role,
	int first_rank, int first_index, int n);
void sharing_group_start(struct sharing_group *g);
/* The n workers of a host are dead, and the others go on: another host starts them again. why: for
 * workers that wait for them. */
void sharing_group_vacate(struct sharing_group *g, int first_rank, int n, const char *why);
/* The next starts of n workers, as Assign has them. Owned. */
json_t *sharing_group_starts_json(const struct sharing_group *g, int first_rank, int n);
/* That host is about to start the n workers. */
void sharing_group_take(struct sharing_group *g, struct sharing_host *x, int first_rank, int n);
/* No host has taken them for long: the others wait no longer. */
void sharing_group_give_up(struct sharing_group *g, int first_rank, int n);
/* Its workers are being stopped: calls that wait end. goal: GOAL_RETRY where another attempt may
 * follow. */
void sharing_group_stop(struct sharing_group *g, enum group_goal goal, const char *why);
/* The leader has ended, and that ends the group. */
void sharing_group_leader_over(struct sharing_group *g);

/* True when the worker of that rank, if there is one, is called so. */
bool sharing_group_is_called(const struct sharing_group *g, int64_t rank, const char *name);
/* A worker has started again, ended, or was stopped (io.elasticd.Peer.Report). */
void sharing_group_report(struct sharing_group *g, const json_t *report);
/* Call, Flow, Hangup, Samples or Steps of a host. 0, or -EPROTO with err: the host has broken the
 * protocol. */
int sharing_group_received(
	struct sharing_host *x, const char *method, const json_t *p, struct error *err);

/* Of the agent that leads: sends a message to all hosts that have workers. Takes body. */
void sharing_send_to_hosts(struct supervisor *sv, const char *method, json_t *body);
/* The name of the host of that worker, borrowed until the next call. */
const char *sharing_host_of(const struct supervisor *sv, int rank);

/* Where the workers' keys are: see KV_PERSISTENT in agent/store/kv.h. */
struct store *sharing_group_store(const struct sharing_group *g);
/* As commons_results_json(). */
json_t *sharing_group_results_json(const struct sharing_group *g);
