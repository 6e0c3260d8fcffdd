/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/elasticd.h"

/* elasticd_write_error(); message is not NULL. */
enum elasticd_status error_file_write(
	const struct elasticd *h, const char *message, const char *traceback);
