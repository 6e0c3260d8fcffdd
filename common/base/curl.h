/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * libcurl's functions, loaded when they are first needed. Linked, the library and its dependencies
 * would make every agent several times slower to start and larger, and few jobs need it. Called by
 * common/loop/curl_loop.c, and by those who use it.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#if HAVE_CURL

#include <curl/curl.h>

#define CURL_FUNCTIONS(X)      \
	X(global_init)         \
	X(version_info)        \
	X(easy_init)           \
	X(easy_setopt)         \
	X(easy_cleanup)        \
	X(easy_getinfo)        \
	X(easy_header)         \
	X(easy_strerror)       \
	X(slist_append)        \
	X(slist_free_all)      \
	X(multi_init)          \
	X(multi_setopt)        \
	X(multi_add_handle)    \
	X(multi_remove_handle) \
	X(multi_socket_action) \
	X(multi_info_read)     \
	X(multi_assign)        \
	X(multi_cleanup)

struct curl_library {
#define X(name) __typeof__(curl_##name) *name;
	CURL_FUNCTIONS(X)
#undef X
};

/* The library, loaded for the life of the process. -EOPNOTSUPP with err if this host has none, or
 * one that lacks a function. */
_must_check_ int curl_library_load(const struct curl_library **ret, struct error *err);

#endif
