/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which sections of supervisord's configuration are programs, what their jobs are called, and in
 * which order they start. Pure.
 */

#include "client/import/sections.h"

#include <jansson.h>
#include <stdbool.h>

/* x of [program:x], [eventlistener:x] or [fcgi-program:x], borrowed; NULL: it is no program. */
const char *order_program(const struct section *s);
/* Whether s is a [program:x]. The other kinds need supervisord's events, or a socket that
 * supervisord opens. */
bool order_goes_alone(const struct section *s);
/* The job of a program: its name may have fewer characters. Owned; NULL without memory. */
char *order_job_name(const char *program);
/* The [group:x] that names this program, or NULL. */
struct section *order_group(const struct sections *all, const char *program);
/* The jobs of programs of the next lower rank, which supervisord starts before. Owned. */
json_t *order_before(const struct sections *all, const struct section *s);
