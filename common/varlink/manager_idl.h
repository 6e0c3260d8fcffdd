/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The text of common/varlink/io.elasticd.Manager.varlink, the build makes it. */
extern const char manager_idl[];
