/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/platform.h"

#include "common/base/file.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Every machine of Azure's has this in its chassis; other machines of Hyper-V's do not. */
#define PLATFORM_AZURE_CHASSIS "7783-7084-3265-9085-8269-3286-77"

enum { PLATFORM_FIELD = 128 };

struct platform_dmi {
	char sys_vendor[PLATFORM_FIELD], product_name[PLATFORM_FIELD];
	char bios_vendor[PLATFORM_FIELD], bios_version[PLATFORM_FIELD];
	char board_vendor[PLATFORM_FIELD], chassis_asset_tag[PLATFORM_FIELD];
};

/* A field's text, printable and trimmed; "" where there is none. */
static void platform_read(const char *dir, const char *name, char *ret)
{
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX];
	size_t n = 0;

	*ret = '\0';
	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path) ||
		file_read(path, 4096, &text, NULL) < 0)
		return;
	for (const char *p = text + strspn(text, " \t\n"); *p && n < PLATFORM_FIELD - 1; p++)
		ret[n++] = isprint((unsigned char)*p) ? *p : ' ';
	while (n && ret[n - 1] == ' ')
		n--;
	ret[n] = '\0';
}

static bool platform_begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static enum platform platform_decide(const struct platform_dmi *d)
{
	if (platform_begins(d->product_name, "Google Compute Engine") ||
		(!strcmp(d->product_name, "Google") && !strcmp(d->bios_vendor, "Google")))
		return PLATFORM_GCE;
	if (!strcmp(d->sys_vendor, "Amazon EC2") || !strcmp(d->bios_vendor, "Amazon EC2") ||
		!strcmp(d->board_vendor, "Amazon EC2"))
		return PLATFORM_AWS;
	if (!strcmp(d->sys_vendor, "Xen"))
		/* Only EC2's older machines can be told by their BIOS version. */
		return strcasestr(d->bios_version, "amazon") ? PLATFORM_AWS : PLATFORM_UNKNOWN;
	if (!strcmp(d->sys_vendor, "Microsoft Corporation")) {
		if (!strcmp(d->chassis_asset_tag, PLATFORM_AZURE_CHASSIS))
			return PLATFORM_AZURE;
		return d->chassis_asset_tag[0] ? PLATFORM_OTHER : PLATFORM_UNKNOWN;
	}
	if (d->sys_vendor[0] || d->product_name[0] || d->board_vendor[0])
		return PLATFORM_OTHER;
	return PLATFORM_UNKNOWN;
}

enum platform platform_from_dmi(const char *dir, char *details, size_t size)
{
	struct platform_dmi d;

	if (!dir)
		dir = PLATFORM_DMI_DIR;
	platform_read(dir, "sys_vendor", d.sys_vendor);
	platform_read(dir, "product_name", d.product_name);
	platform_read(dir, "bios_vendor", d.bios_vendor);
	platform_read(dir, "bios_version", d.bios_version);
	platform_read(dir, "board_vendor", d.board_vendor);
	platform_read(dir, "chassis_asset_tag", d.chassis_asset_tag);
	if (d.sys_vendor[0] || d.product_name[0])
		snprintf(details, size, "the firmware says '%s', '%s'", d.sys_vendor,
			d.product_name);
	else
		snprintf(details, size, "the firmware says nothing");
	return platform_decide(&d);
}

const char *platform_name(enum platform p)
{
	static const char *const names[] = {
#define X(name, text) [PLATFORM_##name] = text,
		PLATFORMS(X)
#undef X
	};
	return names[p];
}

bool platform_has_gpu(void)
{
	return access("/dev/nvidia0", F_OK) == 0;
}
