/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/link_raw.h"

#include "agent/link/tls.h"
#include "common/base/file.h"
#include "tests/unit/run.h"

#include <limits.h>

#define TOKEN "a token of some length"

static char dir[] = "/tmp/test-tls-XXXXXX";
static struct link_tls *tls, *other;

/* The programs of this build, which has the module. */
static void use_build(void)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 32);

	must(n > 0, "exe");
	path[n] = '\0';
	for (int i = 0; i < 5; i++)
		*strrchr(path, '/') = '\0';
	strcat(path, "/elastic-agent");
	setenv("ELASTIC_AGENT", path, 1);
}

static struct link_tls *by_token(const char *token)
{
	struct link_tls_options o = { .token_file = NULL };
	struct link_tls *t = NULL;
	int r;

	setenv("ELASTICD_RDZV_TOKEN", token, 1);
	r = link_tls_new(&o, &t, &err);
	ck_assert_msg(r == 0, "%s", err.text);
	unsetenv("ELASTICD_RDZV_TOKEN");
	return t;
}

static void setup(void)
{
	use_build();
	unsetenv("ELASTICD_RDZV_TOKEN");
	must(mkdtemp(dir), "directory");
	head_tls = member_tls = NULL;
	world_setup();
}

static void teardown(void)
{
	world_teardown();
	tls = link_tls_free(tls);
	other = link_tls_free(other);
	(void)!file_rm_rf(dir);
}

/* A head with t in place of the one that there is. */
static void head_with(const struct link_tls *t)
{
	head = link_listen_free(head);
	head_tls = t;
	start_head(0);
}

static void assert_up(int i)
{
	UNTIL(members[i].ups || members[i].ends);
	ck_assert_msg(members[i].ups, "%s", members[i].why.text);
	UNTIL(n_joined > i && heads[i].ups);
}

/* The member's link ended, and its line, as the head's, says this. */
static void assert_refused(const char *field, const char *member_says, const char *head_says)
{
	UNTIL(members[0].ends && n_refused);
	ck_assert_str_eq(members[0].why.field, field);
	ck_assert_msg(strstr(members[0].why.text, member_says) != NULL, "%s", members[0].why.text);
	ck_assert_ptr_nonnull(strstr(members[0].why.text, "127.0.0.1:"));
	ck_assert_msg(strstr(refused, head_says) != NULL, "%s", refused);
	ck_assert_int_eq(n_joined, 0);
}

START_TEST(a_token_makes_links_that_carry_messages_of_any_length)
{
	char *text = calloc(1, 3 << 20);

	tls = by_token(TOKEN);
	member_tls = tls;
	head_with(tls);
	start_member(0, head_port());
	for (int i = 0; i < 100; i++)
		say(&members[0]);
	assert_up(0);
	memset(text, 'x', (3 << 20) - 1);
	ck_assert_int_eq(
		link_send(heads[0].link, "Unable", json_pack("{s:i,s:s}", "round", 1, "why", text)),
		0);
	say(&heads[0]);
	settle(0);
	UNTIL_BEAT(members[0].beats > 3);
	free(text);
}
END_TEST

START_TEST(a_link_with_a_token_resumes)
{
	tls = by_token(TOKEN);
	member_tls = tls;
	head_with(tls);
	start_member(0, head_port());
	assert_up(0);
	for (int i = 0; i < 5; i++) {
		int fd;

		say(&members[0]);
		say(&heads[0]);
		/* The member's socket is the one whose peer is the head. */
		for (fd = 3; fd < 256; fd++) {
			struct sockaddr_in a;
			socklen_t len = sizeof(a);

			if (getpeername(fd, (struct sockaddr *)&a, &len) == 0 &&
				ntohs(a.sin_port) == head_port())
				break;
		}
		ck_assert_int_lt(fd, 256);
		ck_assert_int_eq(shutdown(fd, SHUT_RDWR), 0);
		UNTIL(members[0].ups == i + 2 && heads[0].ups == i + 2);
		settle(0);
	}
	ck_assert_int_eq(n_joined, 1);
}
END_TEST

START_TEST(another_token_is_refused_on_both_sides)
{
	tls = by_token(TOKEN);
	other = by_token(TOKEN "!");
	head_with(tls);
	member_tls = other;
	start_member(0, head_port());
	assert_refused("rendezvous.token_file", "expected the token of the other side, got another",
		"rendezvous.token_file: expected the token of the other side, got another");
}
END_TEST

START_TEST(a_head_with_a_token_refuses_plain_members)
{
	tls = by_token(TOKEN);
	head_with(tls);
	start_member(0, head_port());
	assert_refused("rendezvous.token_file",
		"refused this host: rendezvous.token_file: expected TLS, because",
		"rendezvous.token_file: expected TLS, because there is a token or a certificate on "
		"this side, got plain messages");
}
END_TEST

START_TEST(a_plain_head_refuses_members_with_a_token)
{
	tls = by_token(TOKEN);
	member_tls = tls;
	start_member(0, head_port());
	assert_refused("rendezvous.token_file",
		"expected TLS, because there is a token or a certificate on this side, got plain",
		"expected plain messages, because there is neither token nor certificate on this "
		"side, got TLS");
}
END_TEST

START_TEST(strangers_disturb_no_link_with_a_token)
{
	char heard[1024] = "";
	int fd;

	tls = by_token(TOKEN);
	member_tls = tls;
	head_with(tls);
	start_member(0, head_port());
	assert_up(0);
	fd = raw_connect(head_port());
	raw_say(fd, "Hello", HELLO);
	UNTIL(raw_read(fd, heard, sizeof(heard)));
	ck_assert_ptr_nonnull(strstr(heard, "expected TLS"));
	close(fd);
	fd = raw_connect(head_port());
	raw_send(fd, "\x16\x03\x01\x00\x05hello", 10);
	UNTIL(raw_read(fd, heard, sizeof(heard)));
	close(fd);
	ck_assert_int_eq(n_refused, 2);
	say(&members[0]);
	settle(0);
	ck_assert_int_eq(members[0].waits, 0);
}
END_TEST

static void assert_wrong(const struct link_tls_options *o, const char *field, const char *why)
{
	struct link_tls *t = NULL;

	err = (struct error){ 0 };
	ck_assert_int_eq(link_tls_new(o, &t, &err), -EINVAL);
	ck_assert_str_eq(err.field, field);
	ck_assert_msg(strstr(err.text, why) != NULL, "%s", err.text);
}

static const char *in_dir(const char *name)
{
	static char paths[4][PATH_MAX];
	static int n;

	snprintf(paths[++n % 4], PATH_MAX, "%s/%s", dir, name);
	return paths[n % 4];
}

START_TEST(a_token_comes_from_a_file_or_the_environment_and_has_a_least_length)
{
	struct link_tls_options o = { .token_file = NULL };
	struct link_tls *t = (struct link_tls *)dir;

	ck_assert_int_eq(link_tls_new(&o, &t, &err), 0);
	ck_assert_ptr_null(t);
	o.token_file = in_dir("token");
	assert_wrong(&o, "rendezvous.token_file", "token: No such file or directory");
	ck_assert_int_eq(file_write_atomic(o.token_file, "short\n", 6, 0600, false), 0);
	assert_wrong(&o, "rendezvous.token_file", "token: expected at least 16 bytes, got 5");
	ck_assert_int_eq(
		file_write_atomic(o.token_file, TOKEN "\n", sizeof(TOKEN), 0600, false), 0);
	ck_assert_int_eq(link_tls_new(&o, &tls, &err), 0);
	/* The newline at its end is none of it. */
	other = by_token(TOKEN);
	head_with(tls);
	member_tls = other;
	start_member(0, head_port());
	assert_up(0);
	setenv("ELASTICD_RDZV_TOKEN", "short", 1);
	o.token_file = NULL;
	assert_wrong(&o, "rendezvous.token_file",
		"ELASTICD_RDZV_TOKEN: expected at least 16 bytes, got 5");
}
END_TEST

/* An authority of that name, and a certificate of it for localhost and 127.0.0.1. */
static bool make_certificates(const char *name)
{
	char command[2048];

	snprintf(command, sizeof(command),
		"exec > /dev/null 2>&1; cd %s && e='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30' && "
		"openssl req -x509 $e -keyout %s.ca.key -out %s.ca -subj /CN=%s && "
		"openssl req $e -keyout %s.key -out %s.req -subj /CN=localhost && "
		"printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\\n' > san && "
		"openssl x509 -req -in %s.req -CA %s.ca -CAkey %s.ca.key -CAcreateserial -days 30 "
		"-extfile san -out %s.cert",
		dir, name, name, name, name, name, name, name, name, name);
	return system(command) == 0;
}

static struct link_tls *by_certificates(const char *name)
{
	char cert[64], key[64], ca[64];
	struct link_tls_options o = { .cert = cert, .key = key, .ca = ca };
	struct link_tls *t = NULL;
	int r;

	snprintf(cert, sizeof(cert), "%s/%s.cert", dir, name);
	snprintf(key, sizeof(key), "%s/%s.key", dir, name);
	snprintf(ca, sizeof(ca), "%s/%s.ca", dir, name);
	r = link_tls_new(&o, &t, &err);
	ck_assert_msg(r == 0, "%s", err.text);
	return t;
}

START_TEST(certificates_of_one_authority_make_links)
{
	if (!make_certificates("a"))
		return; /* no openssl command here */
	tls = by_certificates("a");
	member_tls = tls;
	head_with(tls);
	start_member(0, head_port());
	assert_up(0);
	say(&members[0]);
	say(&heads[0]);
	settle(0);
}
END_TEST

START_TEST(certificates_of_another_authority_and_tokens_are_refused)
{
	if (!make_certificates("a") || !make_certificates("b"))
		return; /* no openssl command here */
	tls = by_certificates("a");
	other = by_certificates("b");
	head_with(tls);
	member_tls = other;
	start_member(0, head_port());
	assert_refused("rendezvous.tls", "expected certificates of one authority",
		"rendezvous.tls: expected certificates of one authority");
	members[0].link = link_free(members[0].link);
	other = link_tls_free(other);
	other = by_token(TOKEN);
	member_tls = other;
	n_refused = 0;
	start_member(0, head_port());
	assert_refused("rendezvous.token_file", "expected the token of the other side",
		"rendezvous.tls: expected certificates of one authority");
}
END_TEST

START_TEST(certificates_that_cannot_be_used_are_named)
{
	struct link_tls_options o = { .cert = in_dir("x.cert"), .key = in_dir("x.key") };

	assert_wrong(&o, "rendezvous.tls", "expected cert, key and ca together");
	o.ca = in_dir("x.ca");
	assert_wrong(&o, "rendezvous.tls", "x.cert: ");
	setenv("ELASTICD_RDZV_TOKEN", TOKEN, 1);
	assert_wrong(&o, "rendezvous.tls", "expected a token or certificates, got both");
}
END_TEST

START_TEST(a_build_without_openssl_says_so)
{
	struct link_tls_options o = { .token_file = NULL };

	setenv("ELASTICD_RDZV_TOKEN", TOKEN, 1);
	ck_assert_int_eq(link_tls_new(&o, &tls, &err), -EOPNOTSUPP);
	ck_assert_ptr_nonnull(strstr(err.text, "was built without OpenSSL"));
}
END_TEST

START_TEST(a_missing_module_is_named)
{
	struct link_tls_options o = { .token_file = NULL };

	setenv("ELASTICD_RDZV_TOKEN", TOKEN, 1);
	setenv("ELASTIC_AGENT", "/bin/true", 1);
	ck_assert_int_eq(link_tls_new(&o, &tls, &err), -EOPNOTSUPP);
	ck_assert_ptr_nonnull(strstr(err.text, "link_tls.so, was found neither beside"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("link_tls");
	TCase *t = tcase_create("link_tls");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	if (HAVE_OPENSSL) {
		tcase_add_test(t, a_token_makes_links_that_carry_messages_of_any_length);
		tcase_add_test(t, a_link_with_a_token_resumes);
		tcase_add_test(t, another_token_is_refused_on_both_sides);
		tcase_add_test(t, a_head_with_a_token_refuses_plain_members);
		tcase_add_test(t, a_plain_head_refuses_members_with_a_token);
		tcase_add_test(t, strangers_disturb_no_link_with_a_token);
		tcase_add_test(
			t, a_token_comes_from_a_file_or_the_environment_and_has_a_least_length);
		tcase_add_test(t, certificates_of_one_authority_make_links);
		tcase_add_test(t, certificates_of_another_authority_and_tokens_are_refused);
		tcase_add_test(t, certificates_that_cannot_be_used_are_named);
		tcase_add_test(t, a_missing_module_is_named);
	} else {
		tcase_add_test(t, a_build_without_openssl_says_so);
	}
	suite_add_tcase(s, t);
	return suite_run(s);
}
