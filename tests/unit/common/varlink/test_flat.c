/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A handler's view of a call beside the tree: two servers of the workers' interface get the same
 * bytes, and only one of them has flat handlers. Handlers answer with what they got.
 */
#include "common/text/json.h"
#include "common/text/json_flat.h"
#include "common/varlink/server.h"
#include "common/varlink/worker_idl.h"
#include "common/varlink/worker_ranges.h"
#include "tests/unit/child.h"
#include "tests/unit/quiet.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SHORT = 1, GENERAL = 0 };

static struct loop *loop;
static struct varlink_server *servers[2];
static int fds[2];
static int n_short; /* calls that were read in place */

static int answer(struct varlink_call *call, const json_t *parameters)
{
	json_t *seen = json_object(), *p = json_object(), *v;
	const char *key;

	json_object_foreach ((json_t *)parameters, key, v)
		if (!json_is_null(v))
			json_object_set(seen, key, v);
	json_put_string(p, "method", varlink_call_method(call));
	json_put(p, "parameters", seen);
	return varlink_reply(call, p);
}

static int general(struct varlink_call *call, json_t *p, void *arg)
{
	return answer(call, p);
}

static int flat(struct varlink_call *call, const struct flat *p, void *arg)
{
	_cleanup_json_ json_t *tree = json_object();

	for (size_t i = 0; i < p->n; i++) {
		char name[32];
		const struct flat_field *f;

		ck_assert_uint_lt(p->fields[i].name_len, sizeof(name));
		snprintf(name, sizeof(name), "%.*s", (int)p->fields[i].name_len, p->fields[i].name);
		f = flat_get(p, name);
		if (!f)
			ck_assert_int_eq(p->fields[i].kind, FLAT_NULL);
		else if (f->kind == FLAT_STRING)
			json_put_string(tree, name, flat_text(p, name, "?"));
		else if (f->kind == FLAT_INT)
			json_put_int(tree, name, flat_int(p, name, -1));
		else if (f->kind == FLAT_BOOL)
			json_put(tree, name, json_boolean(flat_bool(p, name)));
		else
			json_put(tree, name, json_incref((json_t *)flat_array(p, name)));
		ck_assert(!f || f->kind != FLAT_STRING || strlen(f->string) == f->len);
	}
	return answer(call, tree);
}

static int authorize(struct varlink_call *call, const char *method, json_t *p, void *arg)
{
	n_short += !p;
	return 0;
}

static const struct varlink_method methods[] = {
	{ "Put", general },
	{ "Get", general },
	{ "Barrier", general },
	{ "Delete", general },
	{ NULL, NULL },
};

static const struct varlink_method other_methods[] = {
	{ "Delete", general },
	{ NULL, NULL },
};

static const struct varlink_flat_method flat_methods[] = {
	{ "Put", flat },
	{ "Get", flat },
	{ "Barrier", flat },
	{ NULL, NULL },
};

static void connect_to(int which)
{
	int pair[2];
	struct error err;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	fds[which] = pair[0];
	ck_assert_int_eq(varlink_server_add_connection(servers[which], pair[1], &err), 0);
}

static void setup(void)
{
	struct error err = { 0 };

	ck_assert_int_eq(loop_new(&loop), 0);
	for (int i = 0; i < 2; i++) {
		struct varlink_options opt = {
			.vendor = "v",
			.product = "p",
			.version = "1",
			.url = "u",
			.idl = worker_idl,
			.methods = i == SHORT ? other_methods : methods,
			.flat = i == SHORT ? flat_methods : NULL,
			.ranges = worker_ranges,
			.authorize = authorize,
			.limits.message_bytes = 4096,
		};

		ck_assert_int_eq(varlink_server_new(loop, &opt, &servers[i], &err), 0);
		connect_to(i);
	}
	n_short = 0;
}

static void teardown(void)
{
	for (int i = 0; i < 2; i++) {
		varlink_server_free(servers[i]);
		close(fds[i]);
	}
	loop = loop_free(loop);
}

/* The answer to a message of len bytes, of which the last is its NUL; -1: the server hangs up. */
static ssize_t ask(int which, const char *message, size_t len, char *ret, size_t size)
{
	ssize_t n = 0, all = 0;

	ck_assert_int_eq(send(fds[which], message, len, MSG_NOSIGNAL), (ssize_t)len);
	for (int i = 0; i < 4; i++)
		loop_run_once(loop, false);
	while (all < (ssize_t)size &&
		(n = recv(fds[which], ret + all, size - (size_t)all, MSG_DONTWAIT)) > 0)
		all += n;
	if (n < 0)
		return all;
	close(fds[which]);
	connect_to(which);
	return -1;
}

/* Both ways do the same; whether the short one was taken. */
static bool same(const char *message, size_t len)
{
	static char answers[2][65536];
	ssize_t n[2];
	int before = n_short;

	for (int i = 0; i < 2; i++)
		n[i] = ask(i, message, len, answers[i], sizeof(answers[i]));
	ck_assert_msg(n[0] == n[1], "%.*s: %zd and %zd bytes", (int)len, message, n[0], n[1]);
	if (n[0] > 0)
		ck_assert_mem_eq(answers[0], answers[1], (size_t)n[0]);
	return n_short > before;
}

static bool same_text(const char *text)
{
	return same(text, strlen(text) + 1);
}

#define CALL(method, parameters) \
	"{\"method\":\"io.elasticd.Worker." method "\",\"parameters\":" parameters "}"

static const char *const usual[] = {
	CALL("Put", "{\"key\":\"k/0/1\",\"value\":\"value\",\"overwrite\":true}"),
	CALL("Put",
		"{\"key\":\"a b\",\"base64\":\"YQD/\",\"overwrite\":true,\"persistent\":false}"),
	CALL("Put", "{\"key\":\"\",\"value\":\"\",\"base64\":null,\"overwrite\":null}"),
	CALL("Get", "{\"key\":\"k\"}"),
	CALL("Get", "{\"key\":\"k\",\"wait\":true,\"timeout_ms\":60000}"),
	CALL("Get", "{\"timeout_ms\":0,\"wait\":false,\"key\":\"~}{,:\"}"),
	CALL("Barrier", "{\"name\":\"b\"}"),
	CALL("Barrier", "{\"name\":\"b\",\"members\":null,\"timeout_ms\":9}"),
	CALL("Barrier", "{\"timeout_ms\":123456789,\"name\":\"[]\"}"),
};

START_TEST(usual_calls_take_the_short_way)
{
	for (size_t i = 0; i < sizeof(usual) / sizeof(*usual); i++)
		ck_assert_msg(same_text(usual[i]), "%s", usual[i]);
}
END_TEST

START_TEST(all_that_is_not_plain_takes_the_general_way)
{
	static const char *const texts[] = {
		CALL("Delete", "{\"key\":\"k\"}"),
		CALL("Strange", "{\"key\":\"k\"}"),
		CALL("Get", "{}"),
		CALL("Get", "[]"),
		CALL("Get", "null"),
		CALL("Get", "{\"key\":null}"),
		CALL("Get", "{\"key\":1}"),
		CALL("Get", "{\"key\":\"k\",\"key\":\"k\"}"),
		CALL("Get", "{\"key\":\"k\",\"other\":null}"),
		CALL("Get", "{\"key\":\"k\",}"),
		CALL("Get", "{\"key\":\"k\" }"),
		CALL("Get", "{\"key\":\"k\\n\"}"),
		CALL("Get", "{\"key\":\"k\\u0000\"}"),
		CALL("Get", "{\"key\":\"\\\"\"}"),
		CALL("Get", "{\"key\":\"\xc3\xa4\"}"),
		CALL("Get", "{\"key\":\"\xff\"}"),
		CALL("Get", "{\"key\":\"\x7f\"}"),
		CALL("Get", "{\"key\":\"a\tb\"}"),
		CALL("Get", "{\"key\":\"k\",\"wait\":1}"),
		CALL("Get", "{\"key\":\"k\",\"wait\":\"true\"}"),
		CALL("Get", "{\"key\":\"k\",\"wait\":truely}"),
		CALL("Get", "{\"key\":\"k\",\"timeout_ms\":-1}"),
		CALL("Get", "{\"key\":\"k\",\"timeout_ms\":-0}"),
		CALL("Get", "{\"key\":\"k\",\"timeout_ms\":007}"),
		CALL("Get", "{\"key\":\"k\",\"timeout_ms\":1.0}"),
		CALL("Get", "{\"key\":\"k\",\"timeout_ms\":1e3}"),
		CALL("Get", "{\"key\":\"k\",\"timeout_ms\":}"),
		CALL("Get", "{\"key\":\"k\",\"timeout_ms\":999999999999999999}"),
		CALL("Get", "{\"key\":\"k\",\"timeout_ms\":9223372036854775807}"),
		CALL("Get", "{\"key\":\"k\",\"timeout_ms\":9223372036854775808}"),
		CALL("Get", "{\"key\":\"k\",\"timeout_ms\":99999999999999999999999}"),
		CALL("Barrier", "{\"name\":\"b\",\"members\":[\"a:0\"]}"),
		CALL("Barrier", "{\"name\":\"b\",\"members\":[1]}"),
		CALL("Get", "{\"key\":\"k\"},\"more\":true"),
		CALL("Get", "{\"key\":\"k\"},\"oneway\":true"),
		CALL("Get", "{\"key\":\"k\"},\"upgrade\":true"),
		CALL("Get", "{\"key\":\"k\"}}"),
		"{\"method\":\"io.elasticd.Worker.Get\",\"parameters\":{\"key\":\"k\"",
		"{\"method\":\"io.elasticd.Worker.Get\"}",
		"{\"method\":\"io.elasticd.Worker.\",\"parameters\":{\"key\":\"k\"}}",
		"{\"method\":\"io.elasticd.Worker\",\"parameters\":{\"key\":\"k\"}}",
		"{\"method\":\"org.varlink.service.GetInfo\",\"parameters\":{}}",
		"{\"parameters\":{\"key\":\"k\"},\"method\":\"io.elasticd.Worker.Get\"}",
		" {\"method\":\"io.elasticd.Worker.Get\",\"parameters\":{\"key\":\"k\"}}",
		"",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		ck_assert_msg(!same_text(texts[i]), "%s", texts[i]);
}
END_TEST

START_TEST(one_more_member_than_there_is_room_for_is_no_harm)
{
	struct flat f;
	char text[] = "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,"
		      "\"i\":9,\"j\":10,\"k\":11,\"l\":12,\"m\":13}";
	_cleanup_json_ json_t *tree = json_loads(text, 0, NULL);

	flat_of(tree, &f);
	ck_assert_uint_eq(f.n, FLAT_FIELDS);
	ck_assert_ptr_null(flat_scan(text, &f));
	strcpy(strstr(text, ",\"m\""), "}");
	ck_assert_ptr_eq(flat_scan(text, &f), text + strlen(text));
	ck_assert_uint_eq(f.n, FLAT_FIELDS);
	ck_assert_int_eq(flat_int(&f, "l", 0), 12);
	ck_assert_int_eq(flat_int(&f, "m", 0), 0);
}
END_TEST

START_TEST(no_name_is_taken_twice)
{
	struct flat f;
	char text[] = "{\"a\":1,\"b\":2,\"a\":3}";

	ck_assert_ptr_null(flat_scan(text, &f));
}
END_TEST

START_TEST(numbers_are_read_to_their_last_digit)
{
	struct flat f;
	char text[] = "{\"a\":-999999999999999999,\"b\":999999999999999999,\"c\":0}";

	ck_assert_ptr_eq(flat_scan(text, &f), text + strlen(text));
	ck_assert_int_eq(flat_int(&f, "a", 0), INT64_C(-999999999999999999));
	ck_assert_int_eq(flat_int(&f, "b", 0), INT64_C(999999999999999999));
	ck_assert_int_eq(flat_int(&f, "c", 1), 0);
}
END_TEST

static uint64_t state;

static size_t draw(size_t n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 16) % n;
}

/* One change, in one of several ways. The NUL at the end stays. */
static size_t mutate(char *text, size_t len, size_t room)
{
	static const char *const pieces[] = { "\"", "\\", "{", "}", ",", ":", "null", "true",
		"false", "0", "-", "12345678901234567890", "e5", ".5", " ", "\t", "\x7f", "\xc3",
		"\xc3\xa4", "\\u0041", "\\u0000", "[", "]", "\"key\":\"k\"", "\"key\":", "key",
		"value", ",\"more\":true", ",\"oneway\":true", "\"name\":\"n\"", "\"x\":1" };
	const char *piece = pieces[draw(sizeof(pieces) / sizeof(*pieces))];
	size_t skip = draw(4) && len > 70 ? 60 : 0; /* mostly among the parameters */
	size_t at = skip + draw(len - 1 - skip), n = strlen(piece), cut;

	switch (draw(4)) {
	case 0:
		text[at] = (char)(1 + draw(255));
		return len;
	case 1:
		cut = 1 + draw(len - 1 - at < 12 ? len - 1 - at : 12);
		memmove(text + at, text + at + cut, len - at - cut);
		return len - cut;
	case 2:
		if (at + n < len)
			memcpy(text + at, piece, n);
		return len;
	default:
		if (len + n > room)
			return len;
		memmove(text + at + n, text + at, len - at);
		memcpy(text + at, piece, n);
		return len + n;
	}
}

START_TEST(random_calls_get_the_same_answer_both_ways)
{
	int shorts = 0, mutations = walk_length(3000, 3000, 400);
	char text[1024];

	state = 0x9e3779b97f4a7c15 + (uint64_t)_i;
	for (int i = 0; i < mutations; i++) {
		const char *from = usual[draw(sizeof(usual) / sizeof(*usual))];
		size_t len = strlen(from) + 1;

		memcpy(text, from, len);
		for (size_t n = 1 + draw(2); n-- > 0 && len > 2;)
			len = mutate(text, len, sizeof(text));
		shorts += same(text, len);
	}
	/* Some are harmless, and most are not. */
	ck_assert_int_gt(shorts, mutations / 100);
	ck_assert_int_lt(shorts, mutations / 2);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("varlink_flat");
	TCase *t = tcase_create("varlink_flat");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 600);
	tcase_add_test(t, usual_calls_take_the_short_way);
	tcase_add_test(t, all_that_is_not_plain_takes_the_general_way);
	tcase_add_test(t, one_more_member_than_there_is_room_for_is_no_harm);
	tcase_add_test(t, no_name_is_taken_twice);
	tcase_add_test(t, numbers_are_read_to_their_last_digit);
	tcase_add_loop_test(t, random_calls_get_the_same_answer_both_ways, 0, 4);
	suite_add_tcase(s, t);
	return suite_run(s);
}
