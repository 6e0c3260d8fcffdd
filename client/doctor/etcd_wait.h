/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Calls to etcd, one after the other: each runs the loop until it is answered. */

#include "common/etcd/etcd.h"

/* The part of an answer that the callers need. */
struct etcd_wait {
	struct loop *loop;
	bool answered, succeeded;
	enum status status;
	char text[1024]; /* where status is not OK */
	uint64_t cluster, leader;
	char version[32];
	bool no_space, corrupt;
	int64_t lease;
	size_t n;    /* entries of the first result */
	char *value; /* of the first of them, owned */
};

/* For the functions of common/etcd/etcd.h; arg is a struct etcd_wait whose loop is set. */
void etcd_wait_answer(void *arg, const struct etcd_answer *a);
/* Waits for the call that returned r. Returns whether etcd answered with OK. */
bool etcd_wait_for(struct etcd_wait *w, int r);
void etcd_wait_fini(struct etcd_wait *w);
