/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/varlink/server.h"

/* The ranges of integers in the messages of io.elasticd.Peer, at any depth. */
extern const struct varlink_range peer_ranges[];
