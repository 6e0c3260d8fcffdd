/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The text of common/varlink/io.elasticd.Manager.varlink, put in at build time. */
extern const char manager_idl[];
