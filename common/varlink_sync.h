/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The blocking caller's side, for command-line programs; knows no loop. */

#include "common/cleanup.h"
#include "common/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

struct varlink_sync;

/* -ENOENT or -ECONNREFUSED where nobody listens, -EACCES where one may not, -EPERM where somebody
 * does who is not trusted: see varlink_socket_check_peer(). */
_must_check_ int varlink_sync_connect(
	const char *path, uid_t also, struct varlink_sync **ret, struct error *err);
struct varlink_sync *varlink_sync_free(struct varlink_sync *c);
DEFINE_CLEANUP(struct varlink_sync *, varlink_sync_free)

/* Sends one call; takes parameters (NULL means {}). */
_must_check_ int varlink_sync_send(struct varlink_sync *c, const char *method, json_t *parameters,
	bool more, struct error *err);

/*
 * Waits for one answer. 0: ret_parameters is owned, ret_continues tells whether more follow.
 * -EREMOTEIO: the service answered with an error, named in ret_error (owned), ret_parameters holds
 * its parameters and err a line for people. Other negative errno: the connection failed. -EINTR
 * when a signal came and nothing was read; calling again goes on.
 */
_must_check_ int varlink_sync_receive(struct varlink_sync *c, json_t **ret_parameters,
	char **ret_error, bool *ret_continues, struct error *err);

/* send and receive of one plain call; EINTR is retried. Same returns. */
_must_check_ int varlink_sync_call(struct varlink_sync *c, const char *method, json_t *parameters,
	json_t **ret_parameters, char **ret_error, struct error *err);

int varlink_sync_fd(const struct varlink_sync *c);

/*
 * Waits until varlink_sync_receive() would find something to read (also what it has read ahead).
 * timeout_ms -1 waits for ever, 0 only looks. Returns 1, 0 when the time passed, -EINTR when a
 * signal came, or another negative errno.
 */
_must_check_ int varlink_sync_wait(struct varlink_sync *c, int timeout_ms);
