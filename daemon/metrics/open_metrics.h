/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Text in the OpenMetrics format, version 1.0.0: families with their samples, "# EOF" at the end.
 * Pure. Remembers a lack of memory until the end.
 */

#include <stdbool.h>
#include <stddef.h>

struct open_metrics {
	char *text;
	size_t len, size;
	bool failed;		   /* without memory */
	const char *family, *type; /* of the samples that follow */
	const char *help;	   /* NULL: the family has its head */
	const char *suffix;	   /* of samples: "_total" for a counter */
};

/* Begins a family of type "gauge", "counter" or "info"; its samples follow, and without any there
 * is no trace of it. The texts are borrowed until the next. */
void open_metrics_family(
	struct open_metrics *m, const char *name, const char *type, const char *help);

/* One sample. labels: NULL, or as open_metrics_label() wrote them. name and value are one further
 * label, or NULL. */
void open_metrics_sample(struct open_metrics *m, const char *labels, const char *name,
	const char *value, double number);

/* Appends name="value" to text, a string of size bytes, behind a comma if it is not empty; the rest
 * of a value that does not fit is left out. */
void open_metrics_label(char *text, size_t size, const char *name, const char *value);

/* Returns the whole text (owned), or NULL without memory. m is empty afterwards. */
char *open_metrics_end(struct open_metrics *m, size_t *ret_len);
