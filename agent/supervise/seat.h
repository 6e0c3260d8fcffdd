/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where this host and its workers stand in a group of several hosts, in one attempt. The group's
 * head decides it; without one this host is the whole group, and the supervisor has no seat.
 */

#include <stdbool.h>

/* The workers of one role on this host; the others of them follow the first without a gap. */
struct seat_role {
	int replicas;	 /* 0: none on this host */
	int first_rank;	 /* RANK */
	int first_index; /* within the role, over all hosts; also ROLE_RANK */
	int role_size;	 /* ROLE_WORLD_SIZE */
};

struct seat {
	int attempt;		       /* of the group */
	int restarts;		       /* what TORCHELASTIC_RESTART_COUNT shows */
	int group_rank;		       /* GROUP_RANK */
	int group_size;		       /* GROUP_WORLD_SIZE: hosts */
	int world_size;		       /* WORLD_SIZE: workers of all hosts */
	bool master;		       /* this host claims MASTER_PORT */
	const struct seat_role *roles; /* in the order of the specification; borrowed */
	/* Of each worker, where others of the attempt run already: the number of its next start,
	 * or -1: it has succeeded, and is not started. Borrowed; NULL: the attempt is new. */
	const int *starts;
	int n_starts;
};
