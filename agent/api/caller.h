/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The user behind a call, for events, reasons and the log. Decides nothing. */

#include "common/base/user_name.h"

#include <jansson.h>

struct varlink_call;

/*
 * "alice (1000)": the user that elasticd names in a call that it relays, else the user of the
 * connection. Only root, elasticd and the job's user reach the agent, so no other user can claim to
 * be somebody else. Returns buf.
 */
const char *caller_name(
	const struct varlink_call *call, const json_t *parameters, char buf[USER_NAME_MAX]);
