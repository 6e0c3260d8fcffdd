/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Text and numbers in XML (and so in HTML). Pure but for the stream. */

#include <stdio.h>

/* The text, at most max bytes of it (0: all), escaped for an element or an attribute. Control
 * characters and broken UTF-8, which XML cannot have, become U+FFFD. A cut ends with an ellipsis.
 */
void xml_text(FILE *f, const char *text, size_t max);

/* The first n bytes of the text, or all of a shorter one, escaped in the same way and cut silently.
 */
void xml_part(FILE *f, const char *text, size_t n);

/* At most places digits behind the point, without zeros at the end. */
void xml_number(FILE *f, double v, int places);

/* About how wide a text is in a sans-serif font of that size. */
double xml_width(const char *text, double size);

/* How many bytes of text are about that wide, ending at a space where one is near. */
size_t xml_fits(const char *text, double size, double width);
