/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What workers get of the host, and what it says about them: a feature. */

#include "agent/supervise/feature.h"

extern const struct feature resources_feature;
