/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/metrics/numbers.h"
#include "daemon/metrics/open_metrics.h"
#include "tests/unit/run.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct open_metrics m;

static void ends_as(const char *expected)
{
	size_t len = 0;
	char *text = open_metrics_end(&m, &len);

	ck_assert_str_eq(text, expected);
	ck_assert_uint_eq(len, strlen(expected));
	free(text);
}

START_TEST(families_have_a_head_and_samples)
{
	open_metrics_family(&m, "a_jobs", "gauge", "Jobs.");
	open_metrics_sample(&m, NULL, NULL, NULL, 3);
	open_metrics_family(&m, "a_ends", "counter", "Ends.");
	open_metrics_sample(&m, "job=\"x\"", "state", "failed", 0);
	open_metrics_sample(&m, "job=\"x\"", NULL, NULL, 7);
	open_metrics_family(&m, "a_build", "info", "Build.");
	open_metrics_sample(&m, NULL, "version", "1", 1);
	ends_as("# HELP a_jobs Jobs.\n# TYPE a_jobs gauge\na_jobs 3\n"
		"# HELP a_ends Ends.\n# TYPE a_ends counter\n"
		"a_ends_total{job=\"x\",state=\"failed\"} 0\na_ends_total{job=\"x\"} 7\n"
		"# HELP a_build Build.\n# TYPE a_build info\na_build_info{version=\"1\"} 1\n"
		"# EOF\n");
}
END_TEST

START_TEST(a_family_without_samples_leaves_no_trace)
{
	open_metrics_family(&m, "none", "gauge", "None.");
	open_metrics_family(&m, "one", "gauge", "One.");
	open_metrics_sample(&m, "", NULL, NULL, 1);
	open_metrics_family(&m, "last", "gauge", "None.");
	ends_as("# HELP one One.\n# TYPE one gauge\none 1\n# EOF\n");
}
END_TEST

static const struct {
	double number;
	const char *text;
} numbers[] = {
	{ 0, "0" },
	{ -0.0, "0" },
	{ -12, "-12" },
	{ 123456789012345, "123456789012345" },
	{ 0.25, "0.25" },
	{ -1.5, "-1.5" },
	{ 1795863910.381, "1795863910.381" },
	{ 1795863910123456 * 1e-6, "1795863910.123456" },
	{ 57 * 0.01, "0.57" },
	{ 0.000001, "0.000001" },
	{ 0.0000125, "1.25e-05" },
	{ 1.0 / 3, "0.333333333333333" },
	{ 1234567890123.25, "1234567890123.25" },
	{ 1e18, "1e+18" },
};

START_TEST(numbers_are_exact)
{
	char expected[128];

	open_metrics_family(&m, "n", "gauge", "N.");
	open_metrics_sample(&m, NULL, NULL, NULL, numbers[_i].number);
	snprintf(expected, sizeof(expected), "# HELP n N.\n# TYPE n gauge\nn %s\n# EOF\n",
		numbers[_i].text);
	ends_as(expected);
}
END_TEST

START_TEST(labels_are_escaped_and_cut)
{
	char text[32] = "";

	open_metrics_label(text, sizeof(text), "a", "x\"y\\z\n");
	ck_assert_str_eq(text, "a=\"x\\\"y\\\\z\\n\"");
	open_metrics_label(text, sizeof(text), "b", "long, very long, too long");
	ck_assert_uint_lt(strlen(text), sizeof(text));
	ck_assert_int_eq(text[strlen(text) - 1], '"');
	for (size_t size = 4; size < sizeof(text); size++) {
		char less[32] = "";

		memset(less + size, 'X', sizeof(less) - size);
		open_metrics_label(less, size, "c", "\\\\\\\\\\\\\\\\\\\\\\\\\\\\");
		ck_assert_uint_lt(strlen(less), size);
		for (size_t i = size; i < sizeof(less); i++)
			ck_assert_int_eq(less[i], 'X');
	}
}
END_TEST

static const struct {
	const char *path;
	double value;
} read_as[] = {
	{ "attempt", 2 },
	{ "started_us", 1.5 },
	{ "restarts_by_cause.exit", 4 },
	{ "restarts_by_cause.signal", 0 }, /* counts that are 0 may be left out */
	{ "restarts", NAN },
	{ "queue.queued", 7 },
	{ "queue.put_back", NAN },
	{ "=running", 2 },
	{ "=failed", 1 },
	{ "=stopped", 0 },
	{ "#hosts", 2 },
	{ "etcd_ms", 0.25 },
	{ "silent_workers", NAN },
	{ "<step", 7 },
	{ ">step", 9 },
	{ "+rss_bytes", 30 },
	{ "+cpu_ms", NAN },
	{ "?straggler", 1 },
	{ "goodput.percent", 0.5 },
	{ "goodput.working_ms", 1 },
};

START_TEST(a_job_is_read_into_its_numbers)
{
	json_t *job = json_loads(
		"{\"attempt\": 2, \"started_us\": 1500000, \"restarts_by_cause\": {\"exit\": 4},"
		"\"queue\": {\"queued\": 7, \"put_back\": \"no number\"},"
		"\"workers\": [{\"state\": \"running\", \"step\": 9, \"rss_bytes\": 10},"
		" {\"state\": \"failed\", \"cpu_ms\": \"?\"},"
		" {\"state\": \"running\", \"step\": 7, \"rss_bytes\": 20, \"straggler\": \"x\"}],"
		"\"goodput\": {\"percent\": 50.0, \"working_ms\": 1000},"
		"\"hosts\": [{}, {}], \"etcd_ms\": 250}",
		0, NULL);
	struct job_numbers n;

	ck_assert_ptr_nonnull(job);
	job_numbers_read(job, &n);
	for (size_t k = 0; k < sizeof(read_as) / sizeof(*read_as); k++) {
		size_t i = 0;

		while (i < metric_n_rows && strcmp(metric_rows[i].path, read_as[k].path) != 0)
			i++;
		ck_assert_msg(i < metric_n_rows, "%s has no row", read_as[k].path);
		ck_assert_msg(isnan(read_as[k].value) ? isnan(n.values[i])
						      : n.values[i] == read_as[k].value,
			"%s", read_as[k].path);
	}
	json_decref(job);
	job_numbers_read(NULL, &n);
	for (size_t i = 0; i < metric_n_rows; i++)
		ck_assert(isnan(n.values[i]));
}
END_TEST

START_TEST(rows_of_one_metric_stand_together)
{
	for (size_t i = 0; i < metric_n_rows; i++) {
		const struct metric_row *a = &metric_rows[i];

		for (size_t k = i + 1; k < metric_n_rows; k++) {
			const struct metric_row *b = &metric_rows[k];

			if (strcmp(a->name, b->name) != 0)
				continue;
			ck_assert_str_eq(metric_rows[k - 1].name, a->name);
			ck_assert_int_eq(a->type, b->type);
			ck_assert_str_eq(a->label, b->label);
			ck_assert_str_ne(a->value, b->value);
		}
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("open_metrics");
	TCase *t = tcase_create("open_metrics");

	tcase_add_test(t, families_have_a_head_and_samples);
	tcase_add_test(t, a_family_without_samples_leaves_no_trace);
	tcase_add_loop_test(t, numbers_are_exact, 0, (int)(sizeof(numbers) / sizeof(*numbers)));
	tcase_add_test(t, labels_are_escaped_and_cut);
	tcase_add_test(t, a_job_is_read_into_its_numbers);
	tcase_add_test(t, rows_of_one_metric_stand_together);
	suite_add_tcase(s, t);
	return suite_run(s);
}
