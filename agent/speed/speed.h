/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The feature: shows the steps per second of each worker and the run's goodput, and looks for
 * stragglers where the specification asks for it (speed_watch.c).
 */

#include "agent/supervise/feature.h"

extern const struct feature speed_feature;
