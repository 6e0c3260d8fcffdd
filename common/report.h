/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The failure report that people read at the end of `elasticctl run` and from `elasticctl errors`:
 * torchelastic's fields, the root cause first, then the other failures, then what the agent itself
 * ended. Pure: JSON in, text out; times are shown in the local zone.
 */

#include <jansson.h>
#include <stdbool.h>

/*
 * failures: borrowed array of io.elasticd.Manager.Failure objects, root cause first; a first
 * one that is collateral is no root cause. Absent members are shown as not known, wrong ones never
 * hurt. entrypoint may be NULL. Returns owned text that ends with a newline, or NULL without
 * memory.
 */
char *report_format(const char *entrypoint, const json_t *failures, bool color);

/* "exited with code 3", "killed by signal 9 (SIGKILL), core dumped", "could not be executed: ..."
 * for an io.elasticd.Manager.Exit object (borrowed, may be NULL). Returns owned text. */
char *report_exit_text(const json_t *exit_object);
