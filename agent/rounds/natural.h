/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Orders names as people expect: a number in a name counts as a number, so that node2 stands before
 * node10. The order is total: only equal names compare as equal (node2 stands after node02).
 */

/* Less than, equal to or greater than 0, as strcmp(). */
int natural_compare(const char *a, const char *b);
