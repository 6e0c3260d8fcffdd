/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The project's answer to org.varlink.service.GetInfo. Included by programs that serve varlink. */

/* Where the interfaces are explained: a page that is installed with the programs. */
#define PROJECT_URL "man:elasticd-protocol(7)"
