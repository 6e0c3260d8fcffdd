/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The blocking client, for command-line programs without a loop. */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <jansson.h>
#include <stdbool.h>

struct varlink_sync;

/* A client on a connected, blocking socket (takes fd): see common/varlink/socket.h. */
_must_check_ int varlink_sync_new_fd(int fd, struct varlink_sync **ret, struct error *err);
struct varlink_sync *varlink_sync_free(struct varlink_sync *c);
DEFINE_CLEANUP(struct varlink_sync *, varlink_sync_free)

/* Sends one call; takes parameters (NULL means {}). */
_must_check_ int varlink_sync_send(struct varlink_sync *c, const char *method, json_t *parameters,
	bool more, struct error *err);

/*
 * Waits for one answer. 0: ret_parameters is owned, ret_continues says whether more follow.
 * -EREMOTEIO: the service answered with an error, named in ret_error (owned), with its parameters
 * in ret_parameters and a line for people in err. Other negative errno: the connection failed.
 * -EINTR if a signal came and nothing was read; call it again to go on.
 */
_must_check_ int varlink_sync_receive(struct varlink_sync *c, json_t **ret_parameters,
	char **ret_error, bool *ret_continues, struct error *err);

/* Of the last call. */
const char *varlink_sync_method(const struct varlink_sync *c);
int varlink_sync_fd(const struct varlink_sync *c);

/*
 * Waits until varlink_sync_receive() would find something to read (or has read it already).
 * timeout_ms -1 waits for ever, 0 does not wait. Returns 1, 0 after the time, -EINTR if a signal
 * came, or another negative errno.
 */
_must_check_ int varlink_sync_wait(struct varlink_sync *c, int timeout_ms);
