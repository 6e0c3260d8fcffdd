/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A feature: the host's resources for workers (CPUs, GPU memory, health) and traces of their ends.
 */

#include "agent/supervise/feature.h"

extern const struct feature resources_feature;
