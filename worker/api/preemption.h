/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/elasticd.h"

/* elasticd_step() while a notice of preemption, or an error of the group, is up. */
enum elasticd_status preemption_step(
	struct elasticd *h, int64_t n, enum elasticd_action *ret_action);
