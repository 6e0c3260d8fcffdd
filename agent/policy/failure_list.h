/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Arrays of Failure objects, as in events and in answers of Errors: orders them and picks the one
 * that a verdict names. Pure: JSON in, JSON out. Called by agent/supervise and by
 * agent/api/archived_run.c.
 */

#include <jansson.h>

/* Orders list: failures that ended the attempt, then collateral ones, then those after which the
 * worker was started again alone; each of these by time. */
void failure_list_order(json_t *list);

/* Orders list, and drops all but the first n. */
void failure_list_cut(json_t *list, size_t n);

/* Moves the failure that is the same as root (borrowed, may be NULL) to the front of list. */
void failure_list_put_first(json_t *list, const json_t *root);

/* The failure that a verdict of a time limit names: in an ordered list the first that a program
 * itself reported, else the first that ended the attempt, else the last after which the worker was
 * started again. Borrowed, or NULL if list has none of these. */
json_t *failure_list_last(const json_t *list);
