/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The parameters of messages of io.elasticd.Peer that are about rounds, without n and ack. Pure:
 * each is written from its arguments alone. head_say.c and member_say.c send them.
 *
 * All return an owned object, NULL without memory. Invalid UTF-8 in texts becomes U+FFFD.
 */

#include "agent/rounds/round.h"
#include "common/base/error.h"
#include "common/spec/spec.h"

#include <jansson.h>
#include <stdint.h>

/* --- of a member --- */

struct message_join {
	const struct spec *spec;
	const char *run, *address;	  /* borrowed */
	const char *settings;		  /* the digest of the head's; NULL: unknown */
	uint64_t known_round, last_round; /* 0: none */
	int last_rank;
	int attempts, restarts;
	int64_t answered_ms; /* SPEC_UNSET: no head has answered yet */
};
json_t *message_join(const struct message_join *j);
/* Takes addresses; NULL: the head wants none. master_addr NULL: the master is on another host. */
json_t *message_prepared(
	uint64_t round, json_t *addresses, const char *master_addr, int master_port);
json_t *message_unable(uint64_t round, const struct error *why);
json_t *message_started(uint64_t round, int64_t time_us);
/* The caller adds members that only some events have. */
json_t *message_report(uint64_t round, const char *worker, int rank, int start, const char *event,
	int64_t time_us);
/* Takes failures. */
json_t *message_gone(uint64_t round, json_t *failures);
json_t *message_leave(const char *text);
json_t *message_deputy(const char *address);

/* --- of the head --- */

json_t *message_admitted(uint64_t known_round);
struct message_assign {
	const struct spec *spec;
	const struct ranked_roles *roles;
	const struct round_host *host;
	const struct ranked_world *world;
	int attempt, restarts;
	json_t *starts;	 /* borrowed; NULL: the attempt does not run yet */
	json_t *failure; /* borrowed; NULL: there was none */
};
json_t *message_assign(const struct message_assign *a);
/* Borrows cluster; NULL: there is no TF_CONFIG. master_addr NULL: no host has the master. */
json_t *message_start(uint64_t round, const char *master_addr, int master_port, json_t *cluster);
/* timeout_ms SPEC_UNSET: the specification's counts. */
json_t *message_stop(uint64_t round, const char *reason, const char *cause, int64_t timeout_ms);
/* Borrows verdict; NULL: the group goes on without the host. report: the host prints the report. */
json_t *message_end(json_t *verdict, bool report);
json_t *message_deputize(const char *word);
