/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The text of common/varlink/io.elasticd.Peer.varlink; the build makes it. */
extern const char peer_idl[];
