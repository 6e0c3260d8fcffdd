/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/curl.h"

#if HAVE_CURL

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

static struct curl_library curl_functions;

static void *curl_open(void)
{
	static const char *const names[] = { "libcurl.so.4", "libcurl-gnutls.so.4" };
	void *handle = NULL;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !handle; i++)
		handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	return handle;
}

static int curl_find(void *handle, const char *name, void *ret, struct error *err)
{
	void *function = dlsym(handle, name);

	if (!function)
		return error_set(err, -EOPNOTSUPP, "this host's libcurl has no %s()", name);
	memcpy(ret, &function, sizeof(function));
	return 0;
}

static int curl_resolve(struct curl_library *lib, struct error *err)
{
	void *handle = curl_open();
	int r = 0;

	if (!handle)
		return error_set(err, -EOPNOTSUPP, "libcurl cannot be loaded: %s", dlerror());
#define X(name) \
	if (!r) \
		r = curl_find(handle, "curl_" #name, &lib->name, err);
	CURL_FUNCTIONS(X)
#undef X
	if (r < 0)
		dlclose(handle);
	return r;
}

int curl_library_load(const struct curl_library **ret, struct error *err)
{
	static bool ready;
	int r;

	if (!ready) {
		r = curl_resolve(&curl_functions, err);
		if (r < 0)
			return r;
		if (curl_functions.global_init(CURL_GLOBAL_NOTHING))
			return error_set(err, -EOPNOTSUPP, "libcurl cannot be initialised");
		ready = true;
	}
	*ret = &curl_functions;
	return 0;
}

#endif
