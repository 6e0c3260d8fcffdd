/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/strings.h"
#include "common/spec/table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* resources.devices: the devices to assign, and the workers that get them. */

static int device_parse(struct spec_ctx *ctx, const json_t *value, char **ret)
{
	static const char expected[] = "a device such as 0 or \"GPU-8932f937\"";
	char number[32];
	const char *text = spec_text_or_number(ctx, expected, value, number);

	if (!text)
		return -EINVAL;
	/* They are joined by commas; a negative number ends the list for CUDA. */
	if (!*text || *text == '-' || strpbrk(text, ", \t\r\n") || !strcmp(text, SPEC_DEVICES_AUTO))
		return spec_expected(ctx, expected, value);
	return spec_set_string(ctx, text, ret);
}

static int devices_parse(
	struct spec_ctx *ctx, const struct spec_key *key, const json_t *value, void *field)
{
	char ***ids = field;
	const char *text = json_string_value(value);
	size_t n = text ? 1 : json_array_size(value);

	if (text ? strcmp(text, SPEC_DEVICES_AUTO) != 0 : !n)
		return spec_expected(ctx, key->type->expected, value);
	if (n > SPEC_REPLICAS_MAX)
		return spec_refuse(
			ctx, "expected at most %d devices, got %zu", SPEC_REPLICAS_MAX, n);
	*ids = calloc(n + 1, sizeof(**ids));
	if (!*ids)
		return spec_no_memory(ctx);
	if (text)
		return spec_set_string(ctx, text, &(*ids)[0]);
	for (size_t i = 0, k = 0; i < n; i++) {
		size_t len = spec_enter_index(ctx, i);
		int r = device_parse(ctx, json_array_get(value, i), &(*ids)[k]);

		if (r < 0 && !spec_go_on(ctx, r))
			return r;
		k += r == 0;
		spec_leave(ctx, len);
	}
	return 0;
}

static int devices_format(const struct spec_key *key, const void *field, json_t **ret)
{
	char *const *ids = *(char **const *)field;
	_cleanup_json_ json_t *array = NULL;

	if (!ids)
		return 0;
	if (!strcmp(ids[0], SPEC_DEVICES_AUTO))
		return spec_give(json_string(SPEC_DEVICES_AUTO), ret);
	array = json_array();
	for (; *ids; ids++)
		if (json_array_append_new(array, json_string(*ids)) < 0)
			return -ENOMEM;
	return spec_give(TAKE_PTR(array), ret);
}

const struct spec_type spec_type_devices = {
	.expected = "an array of at least one device, or \"auto\"",
	.parse = devices_parse,
	.format = devices_format,
};

bool spec_wants_device(const struct spec *s, const struct spec_role *role, int index)
{
	const struct spec_devices *devices = &s->resources.devices;

	if (!devices->ids || strings_value(role->env, devices->env))
		return false;
	return (size_t)index >= role->n_env_per_replica ||
	       !strings_value(role->env_per_replica[index], devices->env);
}

/* Several workers may share a device, but one must not get the same one twice. */
static void check_twice(struct spec_ctx *ctx, const struct spec_devices *devices)
{
	char path[48];

	for (int i = 0; devices->ids[i]; i++)
		for (int k = 0; k < i; k++) {
			if (strcmp(devices->ids[i], devices->ids[k]) != 0)
				continue;
			snprintf(path, sizeof(path), "resources.devices.ids[%d]", i);
			spec_note(ctx, path,
				"expected a device of its own, got \"%.64s\" as ids[%d] is: workers "
				"share one only with \"one\" as `assign`",
				devices->ids[i], k);
			break;
		}
}

void spec_check_devices(struct spec_ctx *ctx, const struct spec *s)
{
	const struct spec_devices *devices = &s->resources.devices;
	int wanted = 0, n = 0;

	if (!devices->ids || !devices->ids[0])
		return;
	if (s->virtual_local_rank && devices->assign != SPEC_DEVICES_ONE)
		spec_note(ctx, "compat.virtual_local_rank",
			"lets each worker see one device: needs \"one\" as "
			"`resources.devices.assign`");
	if (devices->assign != SPEC_DEVICES_ONE)
		check_twice(ctx, devices);
	if (devices->assign == SPEC_DEVICES_ALL || !strcmp(devices->ids[0], SPEC_DEVICES_AUTO))
		return;
	for (size_t i = 0; i < s->n_roles; i++)
		for (int k = 0; k < s->roles[i].replicas; k++)
			wanted += spec_wants_device(s, &s->roles[i], k);
	n = (int)strings_count(devices->ids);
	if (n < wanted)
		spec_note(ctx, "resources.devices.ids",
			"expected a device for each of %d workers, got %d; a role that needs none "
			"sets %s in its `env`",
			wanted, n, devices->env);
}

/* Copies the first n entries of list; with list NULL makes the numbers from 0. */
static char **make_ids(const char *list, int n)
{
	char **ids = calloc((size_t)n + 1, sizeof(*ids));

	for (int i = 0; ids && i < n; i++) {
		size_t len = list ? strcspn(list, ",") : 0;

		if (list)
			ids[i] = strndup(list, len);
		else if (asprintf(&ids[i], "%d", i) < 0)
			ids[i] = NULL;
		if (!ids[i]) {
			strings_free(ids);
			return NULL;
		}
		if (list)
			list += len + (list[len] == ',');
	}
	return ids;
}

int spec_find_devices(struct spec *s, const char *root, struct error *err)
{
	struct spec_devices *devices = &s->resources.devices;
	const char *visible;
	char **ids;
	int n;

	if (!devices->ids || strcmp(devices->ids[0], SPEC_DEVICES_AUTO) != 0)
		return 0;
	visible = getenv(devices->env);
	n = visible ? spec_count_visible(visible) : spec_count_gpus(root, NULL);
	if (!n)
		return error_field(err, -EINVAL, "resources.devices.ids",
			visible ? "\"auto\" was asked for, but %s names no device"
				: "\"auto\" was asked for, but neither %s nor the host shows a device",
			devices->env);
	ids = make_ids(visible, n);
	if (!ids)
		return error_set(err, -ENOMEM, "out of memory");
	strings_free(devices->ids);
	devices->ids = ids;
	return 0;
}
