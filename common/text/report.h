/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The failure report for people, at the end of `elasticctl run` and in `elasticctl errors`:
 * torchelastic's fields, the root cause first, then the other failures, then the workers that the
 * agent stopped. Pure: JSON in, text out; times are shown in the local zone.
 */

#include <jansson.h>
#include <stdbool.h>

/*
 * failures: borrowed array of io.elasticd.Manager.Failure objects, root cause first; a collateral
 * first one is no root cause. Missing members are shown as unknown, and wrong ones do no harm.
 * entrypoint may be NULL. Returns owned text that ends with a newline, or NULL without memory.
 */
char *report_format(const char *entrypoint, const json_t *failures, bool color);
