/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the project says of itself, in one place. Included by what serves varlink. */

/* Where the interfaces are explained: a page that is installed with the programs. */
#define PROJECT_URL "man:elasticd-protocol(7)"
