/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Hosts that were at fault too often: a host with `max` faults within a time is kept out for that
 * time. Pure: times are arguments, of a clock that never goes back. It remembers hosts by their
 * names, and only as long as their faults count.
 */

#include "common/base/hash_chain.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

enum { QUARANTINE_FAULTS_MAX = 16 };

TAILQ_HEAD(quarantine_list, quarantine_host);

struct quarantine {
	int max; /* 0: no host is kept out */
	uint64_t time_ms;
	struct chain by_name;
	struct quarantine_list hosts; /* the one whose last fault is oldest first */
};

void quarantine_init(struct quarantine *q, int max, uint64_t time_ms);
void quarantine_fini(struct quarantine *q);

/* A host was at fault. Returns until when it is kept out; 0: it is not, also without memory. */
uint64_t quarantine_fault(struct quarantine *q, const char *host, uint64_t now_ms);
/* Until when a host is kept out; 0: it is not. */
uint64_t quarantine_until(const struct quarantine *q, const char *host, uint64_t now_ms);
/* Forgets the faults of a host. Returns whether it was kept out. */
bool quarantine_forget(struct quarantine *q, const char *host, uint64_t now_ms);

/* For the record of the group, which another host reads: times become those of real_ms, which is
 * now. NULL: no fault counts, or no memory. */
json_t *quarantine_save(const struct quarantine *q, uint64_t now_ms, uint64_t real_ms);
/* Reads it, into an empty q; what is later than now becomes now, and what is no fault is left out.
 */
void quarantine_load(struct quarantine *q, const json_t *saved, uint64_t now_ms, uint64_t real_ms);
