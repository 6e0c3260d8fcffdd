/* SPDX-License-Identifier: Apache-2.0 */
#include "common/spec/table.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* The section `preemption`: its keys and its defaults. */

static const struct {
	const char *name;
	enum spec_notice bit;
} notice_names[] = {
	{ "signal", SPEC_NOTICE_SIGNAL },
	{ "command", SPEC_NOTICE_COMMAND },
	{ "gce", SPEC_NOTICE_GCE },
	{ "aws", SPEC_NOTICE_AWS },
	{ "azure", SPEC_NOTICE_AZURE },
	{ "logind", SPEC_NOTICE_LOGIND },
	{ "cloud", SPEC_NOTICE_CLOUD },
};
enum { N_NOTICES = sizeof(notice_names) / sizeof(notice_names[0]) };

unsigned spec_notice_bit(const char *name)
{
	for (int i = 0; name && i < N_NOTICES; i++)
		if (!strcmp(name, notice_names[i].name))
			return notice_names[i].bit;
	return 0;
}

static int notices_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	unsigned notices = 0;

	if (!json_is_array(value))
		return spec_expected(ctx, key->type->expected, value);
	for (size_t i = 0; i < json_array_size(value); i++) {
		const json_t *element = json_array_get(value, i);
		size_t len = spec_enter_index(ctx, i);
		unsigned bit = spec_notice_bit(json_string_value(element));
		int r = bit ? 0
			    : spec_expected(ctx,
				      "\"signal\", \"command\", \"gce\", \"aws\", \"azure\", "
				      "\"cloud\" or \"logind\"",
				      element);

		if (r < 0 && !spec_go_on(ctx, r))
			return r;
		notices |= bit;
		spec_leave(ctx, len);
	}
	*(unsigned *)field = notices;
	return 0;
}

static int notices_format(const struct spec_key *key, const void *field, json_t **ret)
{
	unsigned notices = *(const unsigned *)field;
	_cleanup_json_ json_t *array = json_array();

	for (int i = 0; i < N_NOTICES; i++)
		if ((notices & notice_names[i].bit) &&
			json_array_append_new(array, json_string(notice_names[i].name)) < 0)
			return -ENOMEM;
	*ret = TAKE_PTR(array);
	return *ret ? 0 : -ENOMEM;
}

static const struct spec_type spec_type_notices = {
	.expected = "an array of sources of notices",
	.parse = notices_parse,
	.format = notices_format,
};

static const char *const how_names[] = {
	[SPEC_PREEMPT_AUTO] = "auto",
	[SPEC_PREEMPT_AGREE] = "agree",
	[SPEC_PREEMPT_SIGNAL] = "signal",
	NULL,
};

const struct spec_key spec_keys_preemption[] = {
	KEY("notices", notices, spec_preemption, notices),
	KEY("signal", signal, spec_preemption, signal),
	KEY("signals", signals, spec_preemption, signals),
	KEY("command", optional_command, spec_preemption, command),
	KEY("poll", duration, spec_preemption, poll_ms, .min = 1),
	KEY("grace", duration, spec_preemption, grace_ms),
	KEY("timeout", duration, spec_preemption, timeout_ms, .min = 1),
	KEY("how", enum, spec_preemption, how, .names = how_names),
	KEY("whom", enum, spec_preemption, whom, .names = spec_whom_names),
	KEY("exit_code", int, spec_preemption, exit_code, .min = 1, .max = 255),
	KEY("resume", bool, spec_preemption, resume),
	KEY("whole", bool, spec_preemption, whole),
	END,
};

int spec_preemption_init(struct spec_preemption *p)
{
	*p = (struct spec_preemption){
		.signals = calloc(2, sizeof(*p->signals)),
		.poll_ms = 1000,
		.grace_ms = SPEC_UNSET,
		.timeout_ms = 600000,
		.whom = SPEC_WHOM_MAIN,
		.exit_code = SPEC_UNSET,
	};
	if (!p->signals)
		return -ENOMEM;
	p->signals[0] = SIGTERM;
	return 0;
}

void spec_preemption_fini(struct spec_preemption *p)
{
	free(p->signals);
	strings_free(p->command);
}

void spec_check_preemption(struct spec_ctx *ctx, const struct spec_preemption *p)
{
	if ((p->notices & SPEC_NOTICE_COMMAND) && !p->command)
		spec_note(ctx, "preemption.notices",
			"\"command\" needs `command`, the program that tells of a notice");
	if (p->command && !(p->notices & SPEC_NOTICE_COMMAND))
		spec_note(ctx, "preemption.command",
			"needs \"command\" among `notices`, or it is never run");
	if ((p->notices & SPEC_NOTICE_SIGNAL) && !*p->signals)
		spec_note(ctx, "preemption.signals",
			"expected at least one signal, which \"signal\" in `notices` waits for");
}
