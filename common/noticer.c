/* SPDX-License-Identifier: Apache-2.0 */
#include "common/noticer.h"

#include <errno.h>

struct noticer {
	struct loop *loop;
	noticer_fn fn;
	void *arg;
	unsigned wanted;
	noticer_platform_fn done;
	void *done_arg;
};

int noticer_new(struct loop *loop, const struct noticer_options *options, noticer_fn fn, void *arg,
	struct noticer **ret)
{
	struct noticer *n = calloc(1, sizeof(*n));

	if (!n)
		return -ENOMEM;
	*n = (struct noticer){ .loop = loop, .fn = fn, .arg = arg };
	*ret = n;
	return 0;
}

static void noticer_answer(void *arg)
{
	struct noticer *n = arg;

	if (n->done)
		n->done(n->done_arg, "other", "");
}

struct noticer *noticer_free(struct noticer *n)
{
	if (n)
		loop_cancel(n->loop, noticer_answer, n);
	free(n);
	return NULL;
}

void noticer_want(struct noticer *n, unsigned sources)
{
	n->wanted = sources;
}

void noticer_again(struct noticer *n)
{
}

int noticer_platform(struct noticer *n, noticer_platform_fn done, void *arg)
{
	n->done = done;
	n->done_arg = arg;
	return loop_defer(n->loop, noticer_answer, n);
}

void noticer_platform_forget(struct noticer *n, void *arg)
{
	if (n->done_arg == arg)
		n->done = NULL;
}

const char *noticer_platform_known(const struct noticer *n)
{
	return NULL;
}

json_t *noticer_watches_json(const struct noticer *n)
{
	return json_array();
}
