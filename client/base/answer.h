/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether an answer has the types of its interface. A job's agent may say anything, and
 * elasticd hands on much of it: the verbs read answers that were checked here, so that a number in
 * the place of a text is an error for people and nothing else. Called by call.c and by `top`.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <jansson.h>

/* method: the full name, "io.elasticd.Manager.Status". Returns 0, or -EBADMSG with err. Lets
 * unknown members pass, which a newer service may add. */
_must_check_ int answer_check(const char *method, const json_t *parameters, struct error *err);
