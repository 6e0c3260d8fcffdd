/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How a worker gives up: one line on stderr that says which rank and why, then exit status 1. A
 * training step cannot go on without its peers, so no caller would do anything else.
 */

/* The rank that lines begin with; before it is set they carry none. */
void fail_set_rank(int rank);

/* Writes "digits: rank R: TEXT" and exits with 1. */
_Noreturn void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
