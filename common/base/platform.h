/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Detects the cloud that a host is in by its firmware. If that names a vendor, the network need not
 * be asked. Reads a few small files of /sys; pure otherwise.
 */

#include <stdbool.h>
#include <stddef.h>

#define PLATFORMS(X)          \
	X(UNKNOWN, "unknown") \
	X(GCE, "gce")         \
	X(AWS, "aws")         \
	X(AZURE, "azure")     \
	X(OTHER, "other")

enum platform {
#define X(name, text) PLATFORM_##name,
	PLATFORMS(X)
#undef X
};

#define PLATFORM_DMI_DIR "/sys/class/dmi/id"

/* dir: NULL for the host's own. Writes what was found into details (size bytes), for people.
 * UNKNOWN if the files are missing or do not decide it. */
enum platform platform_from_dmi(const char *dir, char *details, size_t size);

/* "gce", "aws", "azure", "other"; "unknown". */
const char *platform_name(enum platform p);

/* Whether an NVIDIA GPU is here. */
bool platform_has_gpu(void);
