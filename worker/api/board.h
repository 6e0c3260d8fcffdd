/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/elasticd.h"

/* Maps the board that the environment names, and finds the worker's slot; without a board, gives
 * the handle one of its own. */
enum elasticd_status board_open(struct elasticd *h);
