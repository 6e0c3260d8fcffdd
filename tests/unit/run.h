/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The end of each test program. */

#include <check.h>

/* Runs the suite and frees it. Returns the exit status of the program. */
static inline int suite_run(Suite *s)
{
	SRunner *runner = srunner_create(s);
	int failed;

	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}
