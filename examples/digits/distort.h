/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes more of few images: each time one is trained on, it is a little shifted, turned, sheared
 * and scaled. The writers of the held-out images are not those of the others, and without this the
 * network learns the latter's hands by heart.
 */

#include "examples/digits/dataset.h"

/* Writes a variant of in to out. It depends on seed alone. */
void distort(const struct sample *in, struct sample *out, uint64_t seed);
