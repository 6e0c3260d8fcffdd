/* SPDX-License-Identifier: Apache-2.0 */
#include "client/base/answer.h"

#include "common/varlink/idl.h"
#include "common/varlink/manager_idl.h"
#include "common/varlink/queue_idl.h"
#include "common/varlink/validate.h"

#include <errno.h>
#include <string.h>

/* Parsed when the first answer comes, and kept for as long as the program runs. */
static const struct varlink_idl *answer_interface(const char *method)
{
	static const struct {
		const char *prefix, *text;
	} texts[] = {
		{ "io.elasticd.Manager.", manager_idl },
		{ "io.elasticd.Queue.", queue_idl },
	};
	static struct varlink_idl *parsed[2];

	for (size_t i = 0; i < 2; i++) {
		if (strncmp(method, texts[i].prefix, strlen(texts[i].prefix)) != 0)
			continue;
		if (!parsed[i])
			(void)!varlink_idl_parse(texts[i].text, &parsed[i], NULL);
		return parsed[i];
	}
	return NULL;
}

int answer_check(const char *method, const json_t *parameters, struct error *err)
{
	const struct varlink_idl *idl = answer_interface(method);
	const char *name = strrchr(method, '.');
	const struct varlink_member *m =
		idl && name ? varlink_idl_member(idl, VARLINK_METHOD, name + 1) : NULL;

	if (!m || varlink_validate_answer(&m->out, parameters, name + 1, err) == 0)
		return 0;
	err->code = -EBADMSG;
	return -EBADMSG;
}
