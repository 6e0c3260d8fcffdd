/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The table of jobs. */

#include "client/base/ctl.h"

/* jobs: array of io.elasticd.Manager.Job objects (borrowed). */
void listing_print(const struct ctl *ctl, const json_t *jobs);
