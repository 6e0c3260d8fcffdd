/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Failures as the events and the answers of Errors have them: arrays of Failure objects. Puts them
 * in order and picks the one that a verdict names. Pure: JSON in, JSON out. Called by those who
 * keep failures (agent/supervise/end_run.c), show them (agent/api/methods.c,
 * agent/api/archived_run.c) and read them again (agent/supervise/recover.c).
 */

#include <jansson.h>

/* Orders list: what ended the attempt by time, then what was collateral, then, as they came, those
 * that a restart of the worker alone made good. */
void failure_list_order(json_t *list);

/* Puts the failure first that is the same as root (borrowed, may be NULL), if it is in list. */
void failure_list_put_first(json_t *list, const json_t *root);

/* The failure that a limit of time names, if it came after failures: of an ordered list what the
 * program itself reported, else what ended the attempt, else the last that was made good. Borrowed,
 * or NULL where list has none that counts. */
json_t *failure_list_last(const json_t *list);
