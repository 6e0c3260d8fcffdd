/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The program beside `top` that asks the driver of GPUs: elastic-agent --gpu-usage. Nothing here
 * waits for it longer than the caller says: a driver may hang.
 */

#include "common/base/cleanup.h"

#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

struct gpus;

/* Starts the program. Where there is no driver, it ends by itself. -ENOENT: there is no program;
 * or another negative errno. */
_must_check_ int gpus_new(struct gpus **ret);
/* Ends it. */
struct gpus *gpus_free(struct gpus *g);
DEFINE_CLEANUP(struct gpus *, gpus_free)

/* Becomes readable when an answer, or the program's end, is to be read. */
int gpus_fd(const struct gpus *g);

/* Asks for an answer, unless one is awaited. */
void gpus_ask(struct gpus *g, int64_t now_ms);
/* Since when an answer is awaited; 0: none is. */
int64_t gpus_awaited_ms(const struct gpus *g);

/* Returns 1 with ret (owned) when the answer has come, 0 while it has not, or a negative errno when
 * there will be none. */
_must_check_ int gpus_read(struct gpus *g, json_t **ret);

/* As gpus_read(), but waits for the answer, at most so long. */
_must_check_ int gpus_wait(struct gpus *g, int limit_ms, json_t **ret);
