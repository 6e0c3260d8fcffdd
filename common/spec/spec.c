/* SPDX-License-Identifier: Apache-2.0 */
#include "common/spec/spec.h"

#include "common/spec/table.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

static void lists_free(char ***lists, size_t n)
{
	for (size_t i = 0; i < n; i++)
		strings_free(lists[i]);
	free(lists);
}

static void role_fini(struct spec_role *role)
{
	free(role->name);
	strings_free(role->command);
	lists_free(role->args, role->n_args);
	strings_free(role->env);
	lists_free(role->env_per_replica, role->n_env_per_replica);
	free(role->cwd);
	free(role->init);
	free(role->limits);
	role->restart = spec_restart_free(role->restart);
}

struct spec *spec_free(struct spec *s)
{
	if (!s)
		return NULL;
	free(s->name);
	free(s->cwd);
	free(s->user);
	for (size_t i = 0; i < s->n_roles; i++)
		role_fini(&s->roles[i]);
	free(s->roles);
	free(s->origin);
	strings_free(s->after);
	strings_free(s->needs);
	free(s->logs.dir);
	std_map_fini(&s->logs.redirects);
	std_map_fini(&s->logs.tee);
	free(s->logs.filter);
	free(s->logs.prefix);
	strings_free(s->logs.duplicate_stdout);
	strings_free(s->logs.duplicate_stderr);
	free(s->restart.codes);
	free(s->stop.forward);
	free(s->heartbeat.log_pattern);
	free(s->heartbeat.progress_file);
	free(s->speed.pattern);
	spec_preemption_fini(&s->preemption);
	strings_free(s->resources.devices.ids);
	strings_free(s->resources.health.command);
	free(s->resources.devices.env);
	spec_rendezvous_fini(&s->rendezvous);
	for (int i = 0; i < SPEC_N_HOOKS; i++)
		strings_free(s->hooks.commands[i]);
	free(s->ready.barrier);
	free(s->ready.file);
	free(s->rpc_layer);
	free(s);
	return NULL;
}

/* A specification with no roles and every default. NULL without memory. */
static struct spec *spec_new(void)
{
	static const int forward[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, 0 };
	struct spec *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->max_run_time_ms = SPEC_UNSET;
	s->umask = SPEC_UNSET;
	s->logs.keep = 5;
	s->logs.keep_runs = s->logs.keep_days = SPEC_UNSET;
	s->logs.keep_bytes = SPEC_UNSET;
	s->stop.signal = SIGTERM;
	s->stop.timeout_ms = 30000;
	s->resources.memory_max = SPEC_UNSET;
	s->resources.cpu_weight = SPEC_UNSET;
	s->resources.tasks_max = s->resources.gpu_free_timeout_ms = SPEC_UNSET;
	s->resources.core_dumps = (struct spec_core_dumps){ .size = SPEC_UNSET, .keep = 2 };
	s->resources.health = (struct spec_health){
		.timeout_ms = 30000, .failures = 3, .window_ms = 600000, .cooldown_ms = 600000
	};
	s->leader.grace_ms = SPEC_UNSET;
	s->heartbeat = (struct spec_heartbeat){
		.period_ms = SPEC_UNSET,
		.timeout_ms = SPEC_UNSET,
		.failures = SPEC_UNSET,
		.start_timeout_ms = SPEC_UNSET,
		.progress_timeout_ms = SPEC_UNSET,
		.log_timeout_ms = SPEC_UNSET,
		.log_pattern_timeout_ms = SPEC_UNSET,
		.progress_file_timeout_ms = SPEC_UNSET,
		.progress_start_timeout_ms = SPEC_UNSET,
		.dump_timeout_ms = 10000,
	};
	s->hooks.timeout_ms = 10000;
	s->ready.timeout_ms = 300000;
	s->speed.window_ms = 60000;
	s->speed.straggler = SPEC_UNSET;
	spec_queue_init(&s->queue);
	spec_rendezvous_init(&s->rendezvous);
	s->compat_torch = true;
	s->compat_tf_config = SPEC_UNSET;
	s->resources.devices.env = strdup("CUDA_VISIBLE_DEVICES");
	s->stop.forward = malloc(sizeof(forward));
	if (spec_restart_init(&s->restart) < 0 || spec_preemption_init(&s->preemption) < 0 ||
		!s->stop.forward || !s->resources.devices.env)
		return spec_free(s);
	memcpy(s->stop.forward, forward, sizeof(forward));
	return s;
}

/* Sets defaults that depend on other keys. */
static int set_defaults(struct spec *s, struct error *err)
{
	if (spec_rendezvous_complete(&s->rendezvous) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	if (s->preemption.exit_code != SPEC_UNSET &&
		spec_set_exit_code(s, s->preemption.exit_code) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	if (s->leader.grace_ms == SPEC_UNSET && spec_has_leader(s))
		s->leader.grace_ms = 3000;
	if (s->heartbeat.period_ms != SPEC_UNSET && s->heartbeat.failures == SPEC_UNSET)
		s->heartbeat.failures = 3;
	return 0;
}

static int parse_document(struct spec_ctx *ctx, const json_t *doc, struct spec **ret)
{
	_cleanup_(spec_freep) struct spec *s = spec_new();
	int r;

	if (!s)
		return error_set(ctx->err, -ENOMEM, "out of memory");
	if (!json_is_object(doc))
		return error_set(
			ctx->err, -EINVAL, "a specification is an object with the key `roles`");
	r = spec_walk_object(ctx, spec_keys_top, doc, s);
	/* A window without max means that max is unlimited. */
	if (s->restart.max == SPEC_UNSET && s->restart.window_ms == SPEC_UNSET)
		s->restart.max = 0;
	ctx->n_fields = ctx->all ? ctx->all->n : 0;
	if (r == 0)
		r = spec_roles_inherit(ctx, doc, s);
	if (r == 0)
		r = spec_check(ctx, s);
	if (r == 0 && ctx->all && ctx->all->n)
		return -EINVAL;
	if (r == 0)
		r = set_defaults(s, ctx->err);
	if (r == 0)
		*ret = TAKE_PTR(s);
	return r;
}

int spec_parse(const json_t *doc, struct spec **ret, struct error *err)
{
	struct spec_ctx ctx = { .err = err };

	return parse_document(&ctx, doc, ret);
}

static int collect_problems(const json_t *doc, bool part, struct spec **ret,
	struct spec_problems *ret_problems, struct error *err)
{
	struct spec_problems all = { 0 };
	struct error last = { 0 };
	struct spec_ctx ctx = { .err = &last, .all = &all, .part = part };
	int r = parse_document(&ctx, doc, ret);

	/* The error that ended the parser is not in the list yet. */
	if (r == -EINVAL && (!all.n || !ctx.all)) {
		ctx.all = &all;
		if (!spec_go_on(&ctx, r) && !all.n)
			r = error_set(&last, -ENOMEM, "out of memory");
	}
	if (r == -EINVAL)
		*ret_problems = all;
	else
		spec_problems_fini(&all);
	if (r < 0 && err)
		*err = last;
	return r;
}

int spec_parse_all(
	const json_t *doc, struct spec **ret, struct spec_problems *ret_problems, struct error *err)
{
	return collect_problems(doc, false, ret, ret_problems, err);
}

int spec_check_part(const json_t *doc, struct spec_problems *ret_problems, struct error *err)
{
	_cleanup_(spec_freep) struct spec *s = NULL;

	return collect_problems(doc, true, &s, ret_problems, err);
}

int spec_parse_text(const char *text, size_t len, struct spec **ret, struct error *err)
{
	_cleanup_json_ json_t *doc = NULL;
	json_error_t why;

	if (len > SPEC_TEXT_MAX)
		return error_set(err, -EINVAL, "a specification of %zu bytes; at most %d are read",
			len, SPEC_TEXT_MAX);
	doc = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
	if (!doc) {
		for (char *p = why.text; *p; p++)
			if ((unsigned char)*p < 0x20 || *p == 0x7f)
				*p = ' ';
		return error_set(err, -EINVAL, "line %d, column %d: not JSON: %s", why.line,
			why.column, why.text);
	}
	return spec_parse(doc, ret, err);
}

json_t *spec_to_json(const struct spec *s)
{
	json_t *doc;

	return spec_format_object(spec_keys_top, s, &doc) < 0 ? NULL : doc;
}

int spec_world_size(const struct spec *s)
{
	int n = 0;

	for (size_t i = 0; i < s->n_roles; i++)
		n += s->roles[i].replicas;
	return n;
}

int spec_check_name(const char *name, struct error *err)
{
	static const char ok[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
	static const char latest[] = ".latest";
	size_t len = strlen(name);

	if (!len || len > 64 || strspn(name, ok) != len)
		return error_set(err, -EINVAL,
			"a job's name is 1 to 64 letters, digits, '.', '_' and '-', got \"%.80s\"",
			name);
	if (*name == '.' || *name == '-')
		return error_set(err, -EINVAL, "a job's name does not begin with '%c', got \"%s\"",
			*name, name);
	/* <name>.latest is the link to the newest run's logs. */
	if (len >= sizeof(latest) - 1 && !strcmp(name + len - (sizeof(latest) - 1), latest))
		return error_set(
			err, -EINVAL, "a job's name does not end in \".latest\", got \"%s\"", name);
	return 0;
}
