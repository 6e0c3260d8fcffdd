/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/paths.h"

#include "common/base/private_dir.h"
#include "common/base/random.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { RUN_RANDOM = 8, HOST_LABEL_MAX = 64 };

#define SOCKET_NAME_MAX (sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1)

bool paths_is_system(void)
{
	return geteuid() == 0;
}

char *paths_join(const char *dir, const char *name)
{
	size_t n = strlen(dir);
	char *s;

	while (n > 1 && dir[n - 1] == '/')
		n--;
	return asprintf(&s, "%.*s%s%s", (int)n, dir, n == 1 && dir[0] == '/' ? "" : "/", name) < 0
		       ? NULL
		       : s;
}

/* Absolute form of path, without looking at the file system. */
static char *absolute_path(const char *path)
{
	_cleanup_free_ char *cwd = NULL;

	if (path[0] == '/')
		return strdup(path);
	cwd = getcwd(NULL, 0);
	return cwd ? paths_join(cwd, path) : NULL;
}

/* The value of an XDG variable; NULL for a relative one, which the basedir specification ignores.
 */
static const char *xdg_dir(const char *name)
{
	const char *value = getenv(name);

	return value && value[0] == '/' ? value : NULL;
}

static char *home_dir(void)
{
	const char *home = getenv("HOME");
	const struct passwd *pw;

	if (home && home[0] == '/')
		return strdup(home);
	pw = getpwuid(geteuid());
	return strdup(pw && pw->pw_dir && pw->pw_dir[0] == '/' ? pw->pw_dir : "/");
}

/* $variable/elasticd, else ~/fallback/elasticd */
static char *user_dir(const char *variable, const char *fallback)
{
	_cleanup_free_ char *home = NULL;
	_cleanup_free_ char *base = NULL;
	const char *value = xdg_dir(variable);

	if (value)
		return paths_join(value, "elasticd");
	home = home_dir();
	base = home ? paths_join(home, fallback) : NULL;
	return base ? paths_join(base, "elasticd") : NULL;
}

char *paths_run_dir(void)
{
	_cleanup_free_ char *state = user_dir("XDG_STATE_HOME", ".local/state");

	return state ? paths_join(state, "run") : NULL;
}

/* Whether no other user can write to the directory; if one can, it is not used. */
static bool is_private(const char *dir)
{
	struct error err;

	return private_dir_check(dir, &err) == 0;
}

int paths_check_environment(struct error *err)
{
	const char *value = xdg_dir("XDG_RUNTIME_DIR");
	int r = value && !paths_is_system() ? private_dir_check(value, err) : 0;

	if (r < 0)
		error_prefix(err, "XDG_RUNTIME_DIR is not used");
	return r;
}

static char *user_runtime_dir(void)
{
	const char *value = xdg_dir("XDG_RUNTIME_DIR");
	char dir[64];

	if (value && is_private(value))
		return paths_join(value, "elasticd");
	snprintf(dir, sizeof(dir), "/run/user/%u", (unsigned)geteuid());
	if (is_private(dir))
		return paths_join(dir, "elasticd");
	return paths_run_dir();
}

bool paths_socket_fits(const char *dir, const char *name)
{
	return strlen(dir) + 1 + strlen(name) <= SOCKET_NAME_MAX;
}

static char *default_runtime_dir(bool system)
{
	return system ? strdup("/run/elasticd") : user_runtime_dir();
}

static char *default_state_dir(bool system)
{
	return system ? strdup("/var/lib/elasticd") : user_dir("XDG_STATE_HOME", ".local/state");
}

/* A user's logs are below the state directory, so --state-dir moves both. */
static char *default_log_dir(bool system, const char *state_dir)
{
	return system ? strdup("/var/log/elasticd") : paths_join(state_dir, "logs");
}

static char *default_config_file(bool system)
{
	_cleanup_free_ char *dir = NULL;

	if (system)
		return strdup(SYSCONFDIR "/elasticd/elasticd.conf");
	dir = user_dir("XDG_CONFIG_HOME", ".config");
	return dir ? paths_join(dir, "elasticd.conf") : NULL;
}

int paths_init(struct paths *ret, bool system, const struct paths_overrides *o, struct error *err)
{
	static const struct paths_overrides none;
	_cleanup_(paths_fini) struct paths p = { 0 };
	const char *socket;

	if (!o)
		o = &none;
	socket = o->socket ? o->socket : getenv("ELASTICD_SOCKET");
	p.runtime_dir =
		o->runtime_dir ? absolute_path(o->runtime_dir) : default_runtime_dir(system);
	p.state_dir = o->state_dir ? absolute_path(o->state_dir) : default_state_dir(system);
	p.config_file =
		o->config_file ? absolute_path(o->config_file) : default_config_file(system);
	if (!p.runtime_dir || !p.state_dir || !p.config_file)
		return error_set(err, -ENOMEM, "out of memory");
	p.log_dir = o->log_dir ? absolute_path(o->log_dir) : default_log_dir(system, p.state_dir);
	p.socket = socket && *socket ? absolute_path(socket)
				     : paths_join(p.runtime_dir, "control.sock");
	if (!p.log_dir || !p.socket)
		return error_set(err, -ENOMEM, "out of memory");
	if (strlen(p.socket) > SOCKET_NAME_MAX)
		return error_set(err, -ENAMETOOLONG,
			"%s: the name of a socket has at most %zu bytes, this one has %zu; name a "
			"shorter one with --socket, or a shorter XDG_RUNTIME_DIR",
			p.socket, SOCKET_NAME_MAX, strlen(p.socket));
	*ret = p;
	memset(&p, 0, sizeof(p));
	return 0;
}

void paths_fini(struct paths *p)
{
	free(p->runtime_dir);
	free(p->state_dir);
	free(p->log_dir);
	free(p->config_file);
	free(p->socket);
	memset(p, 0, sizeof(*p));
}

char *paths_client_socket(const char *override, bool *ret_found)
{
	_cleanup_free_ char *dir = NULL;
	_cleanup_free_ char *own = NULL;
	const char *env = getenv("ELASTICD_SOCKET");

	*ret_found = !override && !(env && *env);
	if (override)
		return absolute_path(override);
	if (env && *env)
		return absolute_path(env);
	dir = default_runtime_dir(paths_is_system());
	own = dir ? paths_join(dir, "control.sock") : NULL;
	if (!own)
		return NULL;
	if (!paths_is_system() && access(own, F_OK) && !access("/run/elasticd/control.sock", F_OK))
		return strdup("/run/elasticd/control.sock");
	return TAKE_PTR(own);
}

int paths_check_socket(const char *path, struct error *err)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *dir = !slash	   ? strdup(".")
				   : slash == path ? strdup("/")
						   : strndup(path, slash - path);

	return dir ? private_dir_check(dir, err) : error_set(err, -ENOMEM, "out of memory");
}

static char *beside_this_program(const char *name)
{
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	if (n <= 0)
		return NULL;
	exe[n] = '\0';
	slash = strrchr(exe, '/');
	if (!slash)
		return NULL;
	*slash = '\0';
	return paths_join(exe, name);
}

char *paths_agent_program(const char *dir, struct error *err)
{
	_cleanup_free_ char *beside = NULL, *moved = NULL;
	const char *env = getenv("ELASTIC_AGENT");

	if (env && *env) {
		if (!access(env, X_OK))
			return absolute_path(env);
		error_set(err, -errno, "ELASTIC_AGENT=%s: %s", env, strerror(errno));
		return NULL;
	}
	beside = dir ? paths_join(dir, "elastic-agent") : beside_this_program("elastic-agent");
	if (beside && !access(beside, X_OK))
		return TAKE_PTR(beside);
	/* An installed tree that was moved as a whole. */
	moved = dir ? NULL : beside_this_program("../libexec/elasticd/elastic-agent");
	if (moved && !access(moved, X_OK))
		return TAKE_PTR(moved);
	if (!access(LIBEXECDIR "/elastic-agent", X_OK))
		return strdup(LIBEXECDIR "/elastic-agent");
	error_set(err, -ENOENT, "elastic-agent was found neither at %s nor at %s",
		beside ? beside : "(unknown)", LIBEXECDIR "/elastic-agent");
	return NULL;
}

char *paths_client_program(void)
{
	static const char *const places[] = { "elasticctl", "../bin/elasticctl" };

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		_cleanup_free_ char *path = beside_this_program(places[i]);

		if (path && !access(path, X_OK))
			return TAKE_PTR(path);
	}
	return access(BINDIR "/elasticctl", X_OK) ? NULL : strdup(BINDIR "/elasticctl");
}

char *paths_jobs_dir(const struct paths *p)
{
	char *dir;
	int n = (int)(strrchr(p->config_file, '/') - p->config_file);

	return asprintf(&dir, "%.*s/jobs.d", n, p->config_file) < 0 ? NULL : dir;
}

char *paths_module(const char *name)
{
	struct error err;
	_cleanup_free_ char *path = beside_this_program(name), *agent = NULL;

	if (path && !access(path, R_OK))
		return TAKE_PTR(path);
	agent = paths_agent_program(NULL, &err);
	if (!agent)
		return NULL;
	*strrchr(agent, '/') = '\0'; /* it is absolute */
	free(path);
	path = paths_join(agent, name);
	return path && !access(path, R_OK) ? TAKE_PTR(path) : NULL;
}

static char *below_jobs(const char *root, const char *name)
{
	_cleanup_free_ char *jobs = paths_join(root, "jobs");

	return jobs ? paths_join(jobs, name) : NULL;
}

char *paths_job_runtime(const char *runtime_dir, const char *job)
{
	return below_jobs(runtime_dir, job);
}

/* The name of a host as part of a run's, which is part of a path and of a unit of systemd. */
static void host_label(const char *host, char text[HOST_LABEL_MAX])
{
	char *out = text;

	for (; *host && *host != '.' && out < text + HOST_LABEL_MAX - 1; host++)
		*out++ = isalnum((unsigned char)*host) ? *host : '-';
	*out = '\0';
	if (out == text)
		snprintf(text, HOST_LABEL_MAX, "host");
}

char *run_id_new(const char *name, const char *host)
{
	char text[RUN_RANDOM + 1], label[HOST_LABEL_MAX] = "";
	char *run;

	if (random_letters(text, RUN_RANDOM) < 0)
		return NULL;
	if (host)
		host_label(host, label);
	return asprintf(&run, "%s%s%s_%s", name, host ? "." : "", label, text) < 0 ? NULL : run;
}

char *run_id_here(const char *name, bool several_hosts)
{
	char host[HOST_NAME_MAX + 1] = "";

	(void)!gethostname(host, sizeof(host) - 1);
	return run_id_new(name, several_hosts ? host : NULL);
}
