/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The feature that makes one group of several hosts (rendezvous.nodes). */

#include "agent/supervise/feature.h"

extern const struct feature hosts_feature;
