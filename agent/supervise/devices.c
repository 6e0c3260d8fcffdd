/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/devices.h"

#include "agent/supervise/private.h"
#include "common/base/memstream.h"
#include "common/base/share.h"

#include <errno.h>
#include <stdio.h>

/* Every step-th of the devices from first up to before end. */
static int devices_join(char *const *ids, int first, int end, int step, char **ret)
{
	size_t size;
	FILE *f = open_memstream(ret, &size);

	if (!f)
		return -ENOMEM;
	for (int i = first; i < end; i += step)
		fprintf(f, "%s%s", i > first ? "," : "", ids[i]);
	*ret = memstream_end(f, ret);
	return *ret ? 0 : -ENOMEM;
}

int devices_share(const struct spec_devices *devices, int place, int n, bool late, char **ret)
{
	char *const *ids = devices->ids;
	int count = 0;

	while (ids[count])
		count++;
	if (devices->assign == SPEC_DEVICES_ALL)
		return devices_join(ids, 0, count, 1, ret);
	if (late && (devices->assign != SPEC_DEVICES_ONE || place >= count))
		return devices_join(ids, 0, 0, 1, ret);
	if (!late && count < n)
		return -ERANGE;
	if (devices->assign == SPEC_DEVICES_ONE)
		return devices_join(ids, place, place + 1, 1, ret);
	if (devices->assign == SPEC_DEVICES_STRIDE)
		return devices_join(ids, place, count, n, ret);
	return devices_join(ids, (int)share_begin((size_t)count, (size_t)n, (size_t)place),
		(int)share_begin((size_t)count, (size_t)n, (size_t)place + 1), 1, ret);
}

int devices_env(const struct supervisor *sv, const struct worker *w, struct env *e)
{
	const struct spec_devices *devices = &sv->spec->resources.devices;
	_cleanup_free_ char *share = NULL;
	int n = 0, place = 0, r;

	if (!spec_wants_device(sv->spec, w->role, w->index))
		return 0;
	for (int i = 0; i < sv->n_workers; i++) {
		const struct worker *other = &sv->workers[i];

		if (!spec_wants_device(sv->spec, other->role, other->index))
			continue;
		n += !other->extra;
		/* Workers that were there when the attempt began come first. */
		if (other->extra == w->extra ? other->place < w->place : w->extra)
			place++;
	}
	r = devices_share(devices, place, n, w->extra, &share);
	return r < 0 ? r : env_setf(e, devices->env, "%s", share);
}
