/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* io.elasticd.Manager on the control socket: the table of methods, and what several of them need.
 */

#include "common/varlink/server.h"
#include "daemon/api/daemon.h"

extern const struct varlink_method methods_table[];

/* For varlink_options.refuses and authorize: decides who may call, by a configuration that a reload
 * may change. */
const char *methods_refuse(const struct varlink_peer *peer, json_t **ret_parameters, void *arg);
int methods_authorize(struct varlink_call *call, const char *method, json_t *params, void *arg);

enum access_level methods_level(struct daemon *d, struct varlink_call *call);

/* The job that params names, where the caller may see it. NULL after having answered NotFound. */
struct job *methods_job(struct daemon *d, struct varlink_call *call, const json_t *params);

/* Answers FailedPrecondition: j has ended. */
int methods_not_active(struct varlink_call *call, const struct job *j);

/* Answers Internal; returns 0, so that handlers can return it. */
int methods_failed(struct varlink_call *call, int code, const char *text);
