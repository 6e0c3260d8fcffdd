/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Texts about members given as slots. Cuts no UTF-8 sequence in two. */

#include <stddef.h>

/* Borrowed text "role:index" of a slot, until the next call. */
typedef const char *(*slots_name_fn)(void *arg, int slot);

/* Appends text to the string in buf (size bytes with its NUL), cut where it does not fit. */
void slots_append(char *buf, size_t size, const char *text);
/* Appends at most max bytes of text; "..." replaces what is cut. */
void slots_append_cut(char *buf, size_t size, const char *text, size_t max);
/* Appends "worker:0, ps:1 and 3 more": as many names as there is room for. */
void slots_append_names(
	char *buf, size_t size, const int *slots, size_t n, slots_name_fn name, void *arg);
