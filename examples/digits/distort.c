/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/digits/distort.h"

#include "examples/digits/random.h"

#include <math.h>

#define SIDE 8
/* How far it goes, each way: pixels, radians, and parts of the size. */
#define SHIFT 0.8
#define TURN 0.2
#define SHEAR 0.2
#define SCALE 0.15

static float pixel_at(const struct sample *s, int x, int y)
{
	return x < 0 || y < 0 || x >= SIDE || y >= SIDE ? 0 : s->pixel[y * SIDE + x];
}

/* Between the four pixels around (x, y), which may lie outside: there it is white. */
static float between(const struct sample *s, float x, float y)
{
	int left = (int)floorf(x), top = (int)floorf(y);
	float right_part = x - (float)left, low_part = y - (float)top;

	return (1 - low_part) * ((1 - right_part) * pixel_at(s, left, top) +
					right_part * pixel_at(s, left + 1, top)) +
	       low_part * ((1 - right_part) * pixel_at(s, left, top + 1) +
				  right_part * pixel_at(s, left + 1, top + 1));
}

static double spread(struct random *r, double limit)
{
	return limit * (2 * random_unit(r) - 1);
}

void distort(const struct sample *in, struct sample *out, uint64_t seed)
{
	struct random r = { seed };
	double turn = spread(&r, TURN), shear = spread(&r, SHEAR);
	double wide = 1 + spread(&r, SCALE), high = 1 + spread(&r, SCALE);
	double right = spread(&r, SHIFT), down = spread(&r, SHIFT);
	double middle = (SIDE - 1) / 2.0;

	out->label = in->label;
	for (int y = 0; y < SIDE; y++)
		for (int x = 0; x < SIDE; x++) {
			/* Where in the old image this pixel comes from. */
			double v = (y - middle - down) * high;
			double u = (x - middle - right) * wide + shear * v;

			out->pixel[y * SIDE + x] =
				between(in, (float)(middle + cos(turn) * u - sin(turn) * v),
					(float)(middle + sin(turn) * u + cos(turn) * v));
		}
}
