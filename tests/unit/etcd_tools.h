/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Other things that tests with a real etcd need: its users, certificates, compaction. */

#include "common/etcd/wire.h"
#include "tests/unit/etcd_real.h"

#include <stdarg.h>

static inline void real_or_skip(void)
{
	struct loop *l = NULL;
	struct etcd *e = NULL;
	const char *const endpoints[] = { "127.0.0.1" };
	struct etcd_options o = { .endpoints = endpoints, .n = 1 };
	struct error err = { 0 };

	if (!etcd_is_here()) {
		puts("no etcd here (Debian's etcd-server)");
		exit(77);
	}
	/* Loads libcurl once, before Check forks for each test. */
	if (loop_new(&l) < 0 || etcd_new(l, &o, &e, &err) < 0) {
		puts(err.text);
		exit(77);
	}
	etcd_free(e);
	loop_free(l);
}

/* --- The gateway, for what the client has no call --- */

static struct etcd_wire_options post_files;
static char post_token[256];
static bool posted;

static inline void on_posted(void *arg, const struct etcd_failure *failure)
{
	ck_assert_msg(!failure, "%s", failure ? failure->text : "");
	posted = true;
}

__attribute__((format(printf, 2, 3))) static inline void gateway_post(
	const char *path, const char *fmt, ...)
{
	static const struct etcd_wire_events events = { .done = on_posted };
	char body[512], url[128];
	struct etcd_wire_request q = { .url = url, .body = body };
	struct etcd_exchange *x;
	struct etcd_wire *w;
	struct loop *l;
	const char *answer, *token;
	size_t len;
	va_list ap;

	va_start(ap, fmt);
	q.len = (size_t)vsnprintf(body, sizeof(body), fmt, ap);
	va_end(ap);
	snprintf(url, sizeof(url), "%s%s", members[0].client, path);
	q.token = post_token[0] ? post_token : NULL;
	ck_assert_int_eq(loop_new(&l), 0);
	ck_assert_int_eq(etcd_wire_new(l, &post_files, &w, NULL), 0);
	ck_assert_int_eq(etcd_exchange_new(w, &q, &events, NULL, &x), 0);
	for (posted = false; !posted;)
		loop_run_once(l, true);
	answer = etcd_exchange_body(x, &len);
	ck_assert_uint_gt(len, 0);
	ck_assert_msg(etcd_exchange_status(x) == 200, "%s: %.*s", path, (int)len, answer);
	token = memmem(answer, len, "\"token\":\"", 9);
	if (token)
		snprintf(post_token, sizeof(post_token), "%.*s", (int)strcspn(token + 9, "\""),
			token + 9);
	etcd_exchange_free(x);
	etcd_wire_free(w);
	loop_free(l);
}

/* root, and u who may use keys that begin with an a. */
static inline void users_make(void)
{
	post_token[0] = '\0';
	gateway_post("/v3/auth/user/add", "{\"name\":\"root\",\"password\":\"pw\"}");
	gateway_post("/v3/auth/user/grant", "{\"user\":\"root\",\"role\":\"root\"}");
	gateway_post("/v3/auth/role/add", "{\"name\":\"r\"}");
	gateway_post("/v3/auth/role/grant",
		"{\"name\":\"r\",\"perm\":{\"permType\":\"READWRITE\",\"key\":\"YQ==\","
		"\"range_end\":\"Yg==\"}}");
	gateway_post("/v3/auth/user/add", "{\"name\":\"u\",\"password\":\"pw\"}");
	gateway_post("/v3/auth/user/grant", "{\"user\":\"u\",\"role\":\"r\"}");
	gateway_post("/v3/auth/enable", "{}");
}

static inline void users_make_with(const char *ca, const char *cert, const char *key)
{
	post_files = (struct etcd_wire_options){ .ca = ca, .cert = cert, .key = key };
	users_make();
	post_files = (struct etcd_wire_options){ 0 };
}

/* Tokens from before are of an older state of the users then. */
static inline void users_change(void)
{
	post_token[0] = '\0';
	gateway_post("/v3/auth/authenticate", "{\"name\":\"root\",\"password\":\"pw\"}");
	gateway_post("/v3/auth/role/add", "{\"name\":\"another\"}");
}

/* --- Certificates --- */

/* The path of a file of certificates; valid for the next dozens of calls. */
static inline const char *tls_file(const char *name)
{
	static char paths[64][64];
	static int n;
	char *path = paths[n++ % 64];

	snprintf(path, sizeof(paths[0]), "%s/%s", real_dir, name);
	return path;
}

/* Authorities ca and other; a server's for 127.0.0.1, clients' without and with a common name, and
 * one that other has signed. */
static const char tls_script[] =
	"set -e; cd \"$0\"\n"
	"new='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'\n"
	"authority() { openssl req -x509 $new -keyout $1.key -out $1.pem -subj /CN=$1 -days 9; }\n"
	"signed() {\n"
	"	openssl req $new -keyout $2.key -out csr -subj $3\n"
	"	openssl x509 -req -in csr -CA $1.pem -CAkey $1.key -CAcreateserial -days 9 \\\n"
	"		-extfile ext -out $2.pem\n"
	"}\n"
	"echo subjectAltName=IP:127.0.0.1 > ext\n"
	"authority ca; authority other\n"
	"signed ca server /O=server; signed ca client /O=client; signed ca named /CN=u\n"
	"signed other stranger /O=client\n"
	"cp client.pem locked.pem\n"
	"openssl pkey -in client.key -aes256 -passout pass:x -out locked.key\n";

static inline bool tls_can_be_made(void)
{
	if (access("/usr/bin/openssl", X_OK) == 0)
		return true;
	puts("without TLS: no openssl here");
	return false;
}

static inline void tls_make(void)
{
	pid_t pid = fork();
	int status, null;

	if (pid == 0) {
		null = open("/dev/null", O_RDWR);
		dup2(null, 1);
		dup2(null, 2);
		execl("/bin/sh", "sh", "-c", tls_script, real_dir, NULL);
		_exit(127);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(status == 0, "openssl made no certificates");
}
