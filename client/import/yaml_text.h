/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes a job as YAML that people edit. Pure. */

#include "client/import/program.h"

/* The text of the file; owned, NULL without memory. */
char *import_yaml(const struct import_job *j);
