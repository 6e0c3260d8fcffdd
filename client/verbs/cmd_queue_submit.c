/* SPDX-License-Identifier: Apache-2.0 */
/* task submit: its options; client/queue/submit.c does the rest. */
#include "client/queue/submit.h"
#include "client/verbs/verbs.h"
#include "common/base/quote.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define EXPECTED "expected PAYLOADs or --file"

static int read_options(struct submit *s, const struct args *args)
{
	const char *file = args_get(args, "file"), *format = args_get(args, "format");
	const char *limit = args_get(args, "limit"), *name;
	char quoted[QUOTE_MAX];
	struct error err = { 0 };

	if (args_has(args, "text") && format && strcmp(format, "text") != 0)
		return ctl_usage(s->ctl, "expected --text or --format, not both");
	if (args_has(args, "ordered") && !args_has(args, "fetch"))
		return ctl_usage(s->ctl, "--ordered is for --fetch");
	if (!file == (args->argc == 0))
		return ctl_usage(s->ctl, file ? "expected PAYLOADs or --file, not both" : EXPECTED);
	if (!format)
		format = args_has(args, "text") || !file ? "text" : "json";
	s->format = format;
	s->check_json = !strcmp(format, "json");
	if (queue_format(s->ctl, format) != 0)
		return CTL_USAGE;
	if (limit && (args_duration(args, "limit", &s->limit_ms, &err) < 0 || s->limit_ms == 0))
		return ctl_usage(s->ctl,
			"--limit: expected a duration from 1ms to 36500d, such as \"30s\", got %s",
			quote_text(limit, quoted));
	s->alone = args_has(args, "alone");
	s->no_wait = args_has(args, "no-wait");
	s->fetch = args_has(args, "fetch");
	s->ordered = args_has(args, "ordered");
	s->progress = args_has(args, "progress") ||
		      (isatty(STDERR_FILENO) && !s->ctl->quiet && !s->ctl->json);
	for (int i = 0; (name = args_nth(args, "resource", i)); i++) {
		if (!s->resources)
			s->resources = json_array();
		if (json_array_append_new(s->resources, queue_text(name)) < 0)
			return ctl_error(s->ctl, CTL_FAILED, "out of memory");
	}
	return 0;
}

/* Opens --file. */
static int open_input(struct ctl *ctl, const char *path, int *ret)
{
	if (!strcmp(path, "-")) {
		*ret = STDIN_FILENO;
		return 0;
	}
	*ret = open(path, O_RDONLY | O_CLOEXEC);
	if (*ret < 0)
		return ctl_error(ctl, CTL_REFUSED, "cannot open %s: %s", path, strerror(errno));
	return 0;
}

int cmd_task_submit(struct ctl *ctl, struct args *args)
{
	const char *file = args_get(args, "file");
	struct submit s = { .ctl = ctl, .file = file, .limit_ms = -1 };
	int in = -1, r = queue_begin(ctl, args, true, file ? NULL : EXPECTED, &s.q);

	if (r == 0)
		r = read_options(&s, args);
	if (r == 0 && file)
		r = open_input(ctl, file, &in);
	signal(SIGPIPE, SIG_IGN);
	s.arguments = args->argv;
	s.n_arguments = args->argc;
	if (r == 0)
		r = submit_run(&s, in);
	if (in > STDIN_FILENO)
		close(in);
	json_decref(s.resources);
	return r;
}
