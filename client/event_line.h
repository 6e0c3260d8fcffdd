/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/ctl.h"

/* One event in one line; with_job: for listings of several jobs. */
void event_print(FILE *f, bool color, bool with_job, const json_t *event);
