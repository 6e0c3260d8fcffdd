/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The text of common/varlink/io.elasticd.Doctor.varlink; the build makes it. */
extern const char doctor_idl[];
