/* SPDX-License-Identifier: Apache-2.0 */
#include "client/import/order.h"
#include "client/import/program.h"
#include "client/import/yaml_text.h"
#include "client/launch/yaml.h"
#include "common/spec/spec.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* supervisord's configuration. The job file of a program that can be converted says the same as the
 * job; of one that cannot there is a line for people. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_problem(void *arg, const char *file, int line, const char *text)
{
	int *problems = arg;

	if (strcmp(file, "/etc/fuzz.conf") != 0 || line < 1 || !*text)
		abort();
	++*problems;
}

static void check_file(const struct import_job *job)
{
	_cleanup_(yaml_problems_fini) struct yaml_problems duplicates = { 0 };
	_cleanup_(spec_freep) struct spec *spec = NULL;
	_cleanup_json_ json_t *doc = NULL;
	_cleanup_free_ char *text = import_yaml(job);

	if (!text)
		abort();
	if (yaml_parse(text, strlen(text), "fuzz", &doc, &duplicates, NULL) < 0 || duplicates.n ||
		!json_equal(doc, job->doc))
		abort();
	if (spec_parse(doc, &spec, NULL) < 0)
		abort();
}

static void check_program(const struct sections *all, struct section *s)
{
	_cleanup_(spec_freep) struct spec *spec = NULL;
	struct import_job job = { 0 };
	struct error err = { 0 };
	int problems = 0, r = import_job_make(all, s, on_problem, &problems, &job);

	if ((r != 0 && r != -EINVAL) || (r && !problems))
		abort();
	if (r == 0 && spec_parse(job.doc, &spec, &err) == 0)
		check_file(&job);
	else if (r == 0 && !*err.text)
		abort();
	import_job_fini(&job);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(sections_fini) struct sections all = { 0 };
	_cleanup_free_ char *text = strndup((const char *)data, size);
	int problems = 0;

	if (!text || sections_parse(&all, "/etc/fuzz.conf", text, on_problem, &problems) < 0)
		abort();
	import_begin(&all, on_problem, &problems);
	for (size_t i = 0; i < all.n; i++)
		if (order_program(&all.items[i]))
			check_program(&all, &all.items[i]);
	return 0;
}
