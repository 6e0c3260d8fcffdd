/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * io.elasticd.Manager on agent.sock: the methods that belong to no feature, and the server for all.
 * Without agent.sock (in the foreground) it serves nothing.
 */

#include "agent/supervise/feature.h"

extern const struct feature api_feature;
