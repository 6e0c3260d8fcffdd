/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Who asked the agent for something, for events, reasons and the log. Decides nothing. */

#include "common/user_name.h"

#include <jansson.h>

struct varlink_call;

/*
 * "alice (1000)": whom elasticd names, since it is the peer of what it relays, else the peer's
 * user. Only root, elasticd and the job's user reach the agent, so nobody else can name another.
 * buf is returned.
 */
const char *caller_name(
	const struct varlink_call *call, const json_t *parameters, char buf[USER_NAME_MAX]);
