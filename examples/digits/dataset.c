/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/digits/dataset.h"

#include "examples/digits/fail.h"
#include "examples/digits/random.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads a number of 0..max at *s, which must be followed by end; moves *s behind it. */
static bool take_number(char **s, long max, char end, long *ret)
{
	char *rest;

	errno = 0;
	*ret = strtol(*s, &rest, 10);
	if (rest == *s || errno != 0 || *ret < 0 || *ret > max || *rest != end)
		return false;
	*s = rest + 1;
	return true;
}

static bool parse_line(char *line, struct sample *s)
{
	long v;

	for (int i = 0; i < DATASET_PIXELS; i++) {
		if (!take_number(&line, 16, ',', &v))
			return false;
		s->pixel[i] = (float)v / 16.0f;
	}
	if (!take_number(&line, DATASET_CLASSES - 1, '\0', &v))
		return false;
	s->label = (int)v;
	return true;
}

void dataset_load(struct dataset *d, const char *path)
{
	FILE *f = fopen(path, "re");
	char line[512];
	size_t room = 0;

	if (!f)
		fail("cannot read the data: %s: %s", path, strerror(errno));
	*d = (struct dataset){ 0 };
	while (fgets(line, sizeof(line), f)) {
		if (d->n == room) {
			room = room ? 2 * room : 2048;
			d->samples = reallocarray(d->samples, room, sizeof(*d->samples));
			if (!d->samples)
				fail("no memory for %zu images", room);
		}
		line[strcspn(line, "\r\n")] = '\0';
		if (!parse_line(line, &d->samples[d->n]))
			fail("%s:%zu: expected %d numbers of 0..16 and a digit", path, d->n + 1,
				DATASET_PIXELS);
		d->n++;
	}
	if (ferror(f))
		fail("cannot read the data: %s: %s", path, strerror(errno));
	fclose(f);
	if (d->n <= DATASET_HELD_OUT)
		fail("%s: %zu images, expected more than the %d that are held out", path, d->n,
			DATASET_HELD_OUT);
	d->n_train = d->n - DATASET_HELD_OUT;
}

void dataset_fini(struct dataset *d)
{
	free(d->samples);
	*d = (struct dataset){ 0 };
}

void dataset_shuffle(uint32_t *order, size_t n, uint64_t seed)
{
	struct random r = { seed };

	for (size_t i = 0; i < n; i++)
		order[i] = (uint32_t)i;
	for (size_t left = n; left > 1; left--) {
		size_t j = random_next(&r) % left;
		uint32_t t = order[left - 1];

		order[left - 1] = order[j];
		order[j] = t;
	}
}
