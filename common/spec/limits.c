/* SPDX-License-Identifier: Apache-2.0 */
#include "common/spec/table.h"
#include "common/text/size.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Resource limits: an object of names to a number, "unlimited", or "soft:hard". */

#define EXPECTED "a number >= 0, \"unlimited\" or \"SOFT:HARD\""

static const struct {
	const char *name;
	int resource;
} names[] = {
	{ "as", RLIMIT_AS },
	{ "core", RLIMIT_CORE },
	{ "cpu", RLIMIT_CPU },
	{ "data", RLIMIT_DATA },
	{ "fsize", RLIMIT_FSIZE },
	{ "locks", RLIMIT_LOCKS },
	{ "memlock", RLIMIT_MEMLOCK },
	{ "msgqueue", RLIMIT_MSGQUEUE },
	{ "nice", RLIMIT_NICE },
	{ "nofile", RLIMIT_NOFILE },
	{ "nproc", RLIMIT_NPROC },
	{ "rss", RLIMIT_RSS },
	{ "rtprio", RLIMIT_RTPRIO },
	{ "rttime", RLIMIT_RTTIME },
	{ "sigpending", RLIMIT_SIGPENDING },
	{ "stack", RLIMIT_STACK },
};
enum { N_NAMES = sizeof(names) / sizeof(names[0]) };

static int resource_parse(struct spec_ctx *ctx, const char *name, int *ret_resource)
{
	for (int i = 0; i < N_NAMES; i++) {
		if (!strcmp(name, names[i].name)) {
			*ret_resource = names[i].resource;
			return 0;
		}
	}
	return spec_refuse(ctx,
		"unknown limit, expected as, core, cpu, data, fsize, locks, memlock, msgqueue, nice, "
		"nofile, nproc, rss, rtprio, rttime, sigpending or stack");
}

/* "unlimited", a number, or a size with a suffix. */
static int number_parse(const char *text, rlim_t *ret)
{
	int64_t number;

	if (!strcmp(text, "unlimited")) {
		*ret = RLIM_INFINITY;
		return 0;
	}
	if (size_parse(text, NULL, &number, NULL) < 0)
		return -EINVAL;
	*ret = (rlim_t)number;
	return 0;
}

static int limit_from_text(const char *text, struct spec_rlimit *ret)
{
	const char *colon = strchr(text, ':');
	_cleanup_free_ char *soft = NULL;

	if (!colon) {
		int r = number_parse(text, &ret->soft);

		ret->hard = ret->soft;
		return r;
	}
	soft = strndup(text, colon - text);
	if (!soft)
		return -ENOMEM;
	if (number_parse(soft, &ret->soft) < 0 || number_parse(colon + 1, &ret->hard) < 0)
		return -EINVAL;
	return 0;
}

static int limit_parse(
	struct spec_ctx *ctx, const char *name, const json_t *value, struct spec_rlimit *ret)
{
	size_t len = spec_enter(ctx, name);
	int r = resource_parse(ctx, name, &ret->resource);
	const char *text;

	if (r < 0)
		return r;
	if (json_is_integer(value) && json_integer_value(value) >= 0) {
		ret->soft = ret->hard = (rlim_t)json_integer_value(value);
	} else {
		text = spec_text(ctx, EXPECTED, value);
		if (!text)
			return -EINVAL;
		r = limit_from_text(text, ret);
		if (r == -ENOMEM)
			return spec_no_memory(ctx);
		if (r < 0)
			return spec_expected(ctx, EXPECTED, value);
	}
	if (ret->soft > ret->hard)
		return spec_expected(ctx, "a soft limit that is not above the hard one", value);
	spec_leave(ctx, len);
	return 0;
}

static int limits_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	struct spec_role *role = SPEC_STRUCT_OF(field, spec_role, limits);
	const char *name;
	json_t *member;

	if (!json_is_object(value))
		return spec_expected(ctx, key->type->expected, value);
	if (!json_object_size(value))
		return 0;
	role->limits = calloc(json_object_size(value), sizeof(*role->limits));
	if (!role->limits)
		return spec_no_memory(ctx);
	json_object_foreach ((json_t *)value, name, member) {
		size_t len = ctx->len;
		int r = limit_parse(ctx, name, member, &role->limits[role->n_limits]);

		if (r < 0 && !spec_go_on(ctx, r))
			return r;
		role->n_limits += r == 0;
		spec_leave(ctx, len);
	}
	return 0;
}

static void number_format(rlim_t number, char *buf, size_t size)
{
	if (number == RLIM_INFINITY)
		snprintf(buf, size, "unlimited");
	else
		snprintf(buf, size, "%" PRIu64, (uint64_t)number);
}

static json_t *limit_format(const struct spec_rlimit *limit)
{
	char soft[32], hard[32], both[72];

	if (limit->soft == limit->hard && limit->soft != RLIM_INFINITY)
		return json_integer((json_int_t)limit->soft);
	number_format(limit->soft, soft, sizeof(soft));
	number_format(limit->hard, hard, sizeof(hard));
	snprintf(both, sizeof(both), "%s:%s", soft, hard);
	return json_string(limit->soft == limit->hard ? soft : both);
}

static const char *resource_name(int resource)
{
	for (int i = 0; i < N_NAMES; i++)
		if (names[i].resource == resource)
			return names[i].name;
	return NULL;
}

static int limits_format(const struct spec_key *key, const void *field, json_t **ret)
{
	const struct spec_role *role = SPEC_STRUCT_OF(field, spec_role, limits);
	_cleanup_json_ json_t *object = NULL;

	if (!role->n_limits)
		return 0;
	object = json_object();
	for (size_t i = 0; i < role->n_limits; i++)
		if (json_object_set_new(object, resource_name(role->limits[i].resource),
			    limit_format(&role->limits[i])) < 0)
			return -ENOMEM;
	*ret = TAKE_PTR(object);
	return 0;
}

json_t *spec_limits_to_json(const struct spec_role *role)
{
	json_t *limits = NULL;

	return limits_format(NULL, &role->limits, &limits) < 0 ? NULL : limits;
}

int spec_limits_from_json(
	const json_t *limits, struct spec_rlimit **ret, size_t *ret_n, struct error *err)
{
	static const struct spec_key key = { .name = "limits", .type = &spec_type_limits };
	struct spec_ctx ctx = { .err = err };
	struct spec_role role = { 0 };
	int r = limits_parse(&ctx, &key, limits, &role.limits);

	if (r < 0) {
		free(role.limits);
		return r;
	}
	*ret = role.limits;
	*ret_n = role.n_limits;
	return 0;
}

const struct spec_type spec_type_limits = {
	.expected = "an object of resource limits",
	.parse = limits_parse,
	.format = limits_format,
};
