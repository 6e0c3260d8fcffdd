/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/api/caller.h"

#include "common/base/printable.h"
#include "common/text/json.h"
#include "common/varlink/server.h"

const char *caller_name(
	const struct varlink_call *call, const json_t *parameters, char buf[USER_NAME_MAX])
{
	const char *named = json_get_string(parameters, "caller", NULL);

	if (!named)
		return user_name(varlink_call_peer(call)->uid, buf);
	printable_copy(buf, USER_NAME_MAX, named);
	return buf;
}
