/* SPDX-License-Identifier: Apache-2.0 */
#include "client/base/remote.h"

#include "common/base/quote.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define OWN_PREFIX "elasticctl: "

/* ssh would take a host that begins with "-" for an option. */
static bool is_host(const char *text)
{
	if (*text == '-')
		return false;
	for (; *text; text++)
		if (isspace((unsigned char)*text) || iscntrl((unsigned char)*text))
			return false;
	return true;
}

static char *option_word(const char *name, const char *value)
{
	char *text;

	if (!value)
		return strdup("");
	return asprintf(&text, "--%s=%s", name, value) < 0 ? NULL : text;
}

static char *bridge_command(const char *socket, const char *trusted)
{
	_cleanup_free_ char *at = option_word("socket", socket),
			    *by = option_word("trust-uid", trusted);
	const char *words[5] = { "elasticctl" };
	int n = 1;

	if (!at || !by)
		return NULL;
	if (*at)
		words[n++] = at;
	if (*by)
		words[n++] = by;
	words[n] = "__bridge";
	return quote_shell((char *const *)words);
}

int remote_init(struct remote *r, const char *host, const char *socket, const char *trusted,
	struct error *err)
{
	char quoted[QUOTE_MAX];

	*r = (struct remote){ .said = -1 };
	if (!is_host(host))
		return error_set(err, -EINVAL, "expected HOST or USER@HOST, got %s",
			quote_text(host, quoted));
	r->host = strdup(host);
	r->command = bridge_command(socket, trusted);
	if (r->host && r->command)
		return 0;
	remote_fini(r);
	return error_set(err, -ENOMEM, "out of memory");
}

void remote_fini(struct remote *r)
{
	if (!r->host)
		return;
	free(r->host);
	free(r->command);
	close_fd(r->said);
	*r = (struct remote){ .said = -1 };
}

/* In the child. Ctrl-C is for this program, which may still have something to ask of elasticd. */
static void become_ssh(const struct remote *r, int fd, pid_t parent)
{
	const char *named = getenv("ELASTICD_SSH"), *program = named && *named ? named : "ssh";
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(127);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	signal(SIGTERM, SIG_DFL);
	dup2(r->said, STDERR_FILENO);
	dup2(fd, STDIN_FILENO);
	dup2(fd, STDOUT_FILENO);
	execlp(program, program, "-xT", "--", r->host, r->command, (char *)NULL);
	dprintf(STDERR_FILENO, "cannot execute %s: %s\n", program, strerror(errno));
	_exit(127);
}

/* Reaps those that have ended: a caller such as top tries again for hours. */
static void remote_reap(struct remote *r)
{
	for (size_t i = 0; i < REMOTE_CHILDREN; i++)
		if (r->children[i] && waitpid(r->children[i], NULL, WNOHANG) != 0)
			r->children[i] = 0;
}

int remote_connect(struct remote *r, int *ret, struct error *err)
{
	pid_t pid, parent = getpid();
	int fds[2];

	if (r->said < 0)
		r->said = memfd_create("elasticd-ssh", MFD_CLOEXEC);
	if (r->said < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return error_set(err, -errno, "%s: %s", r->host, strerror(errno));
	remote_reap(r);
	pid = fork();
	if (pid == 0)
		become_ssh(r, fds[1], parent);
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return error_set(err, -EAGAIN, "%s: cannot make a process for ssh", r->host);
	}
	for (size_t i = 0; i < REMOTE_CHILDREN; i++)
		if (!r->children[i]) {
			r->children[i] = pid;
			break;
		}
	*ret = fds[0];
	return 0;
}

bool remote_said(const struct remote *r, char text[REMOTE_SAID_MAX])
{
	off_t size = r->said < 0 ? 0 : lseek(r->said, 0, SEEK_END);
	off_t begin = size < REMOTE_SAID_MAX ? 0 : size - REMOTE_SAID_MAX + 1;
	ssize_t n = size > 0 ? pread(r->said, text, size - begin, begin) : 0;
	char *line;

	while (n > 0 && isspace((unsigned char)text[n - 1]))
		n--;
	if (n <= 0)
		return false;
	text[n] = '\0';
	line = strrchr(text, '\n');
	line = line ? line + 1 : text;
	if (!strncmp(line, OWN_PREFIX, strlen(OWN_PREFIX)))
		line += strlen(OWN_PREFIX);
	memmove(text, line, strlen(line) + 1);
	return true;
}
