/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Scope-bound release: _cleanup_(x_freep) struct x *x = NULL. TAKE_PTR and TAKE_FD hand
 * ownership on and leave an empty variable behind. An empty descriptor is -1.
 */

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(fn) __attribute__((cleanup(fn)))
#define _cleanup_free_ _cleanup_(cleanup_freep)
#define _cleanup_close_ _cleanup_(cleanup_closep)
#define _cleanup_json_ _cleanup_(cleanup_jsonp)
#define _cleanup_file_ _cleanup_(cleanup_filep)
#define _cleanup_dir_ _cleanup_(cleanup_dirp)
#define _cleanup_strings_ _cleanup_(strings_freep)
#define _must_check_ __attribute__((warn_unused_result))

#define TAKE_PTR(p)                          \
	({                                   \
		__auto_type take_tmp_ = (p); \
		(p) = NULL;                  \
		take_tmp_;                   \
	})

#define TAKE_FD(fd)                  \
	({                           \
		int take_fd_ = (fd); \
		(fd) = -1;           \
		take_fd_;            \
	})

/* Defines x_freep() for _cleanup_ from x_free(), which accepts NULL. */
#define DEFINE_CLEANUP(type, fn)          \
	static inline void fn##p(type *p) \
	{                                 \
		fn(*p);                   \
	}

static inline void cleanup_freep(void *p)
{
	free(*(void **)p);
}

/* Closes fd when it is not empty and returns -1; errno stays. */
static inline int close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Frees a list of strings that ends with NULL; list may be NULL. Returns NULL. */
static inline char **strings_free(char **list)
{
	for (char **s = list; s && *s; s++)
		free(*s);
	free(list);
	return NULL;
}
DEFINE_CLEANUP(char **, strings_free)

static inline void cleanup_closep(int *fd)
{
	close_fd(*fd);
}

static inline void cleanup_jsonp(json_t **j)
{
	json_decref(*j);
}

static inline void cleanup_filep(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline void cleanup_dirp(DIR **d)
{
	if (*d)
		closedir(*d);
}
