/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The order of names that people expect: numbers in them count as numbers, so that node2 stands
 * before node10. Total: only equal names compare as equal (node2 stands after node02).
 */

/* Less than, equal to or greater than 0, as strcmp(). */
int natural_compare(const char *a, const char *b);
