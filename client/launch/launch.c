/* SPDX-License-Identifier: Apache-2.0 */
#include "client/launch/launch.h"

#include "client/launch/job_file.h"
#include "client/launch/table.h"
#include "common/base/quote.h"
#include "common/base/similar.h"
#include "common/spec/spec.h"
#include "common/text/json.h"

#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <string.h>

/*
 * Follows Python's argparse, which torchrun's callers rely on: a long option may be cut to a unique
 * prefix, its value follows after "=" or as the next word, and the first word that is not an option
 * begins the program's own command line, which is left alone.
 */

/* Room for an option's name with dashes for underscores. */
enum { NAME_MAX_LEN = 64 };

static bool is_torchruns(size_t i)
{
	return (launch_rows[i].flags & PET) || launch_rows[i].group == GROUP_REFUSED;
}

/* The options whose names begin with a prefix. */
struct matches {
	const struct arg_option *last, *last_torchruns;
	int n, n_torchruns;
	char names[160];
	const struct arg_option *like; /* the most similar option, for a misspelt name */
	size_t distance;
};

static void matches_add(struct matches *m, const struct arg_option *o, bool torchruns)
{
	size_t used = strlen(m->names);

	m->last = o;
	m->n++;
	if (torchruns) {
		m->last_torchruns = o;
		m->n_torchruns++;
	}
	snprintf(m->names + used, sizeof(m->names) - used, "%s--%s", used ? ", " : "", o->name);
}

static void matches_compare(struct matches *m, const struct arg_option *o, const char *name)
{
	size_t d = similar_distance(name, o->name);

	if (d > similar_limit(name) || (m->like && d >= m->distance))
		return;
	m->like = o;
	m->distance = d;
}

/* The option whose name is, or uniquely begins with, name; NULL with err. */
static const struct arg_option *find_long(
	const struct launch_state *s, const char *name, const char *word)
{
	struct matches m = { 0 };
	char q[QUOTE_MAX];
	size_t len = strlen(name);

	for (size_t i = 0; i < OPT_COUNT; i++) {
		if (!strcmp(launch_options[i].name, name))
			return &launch_options[i];
		if (!strncmp(launch_options[i].name, name, len))
			matches_add(&m, &launch_options[i], is_torchruns(i));
		matches_compare(&m, &launch_options[i], name);
	}
	for (int t = 0; t < 2; t++) {
		for (const struct arg_option *o = s->from->tables[t]; o && o->name; o++) {
			if (!strcmp(o->name, name))
				return o;
			if (!strncmp(o->name, name, len))
				matches_add(&m, o, false);
			matches_compare(&m, o, name);
		}
	}
	if (m.n == 1)
		return m.last;
	/* A prefix that is unique among torchrun's options stays valid beside ours. */
	if (m.n_torchruns == 1)
		return m.last_torchruns;
	if (m.n)
		error_set(s->err, -EINVAL, "option %s could be any of %s", quote_text(word, q),
			m.names);
	else if (m.like)
		error_set(s->err, -EINVAL, "unknown option %s; did you mean --%s?",
			quote_text(word, q), m.like->name);
	else
		error_set(s->err, -EINVAL, "unknown option %s", quote_text(word, q));
	return NULL;
}

static const struct arg_option *find_letter(const struct launch_state *s, char letter)
{
	for (size_t i = 0; i < OPT_COUNT; i++)
		if (launch_options[i].letter == letter)
			return &launch_options[i];
	for (int t = 0; t < 2; t++)
		for (const struct arg_option *o = s->from->tables[t]; o && o->name; o++)
			if (o->letter == letter)
				return o;
	error_set(s->err, -EINVAL, "unknown option -%c", letter);
	return NULL;
}

static int store_value(struct launch_state *s, const struct arg_option *o, const char *value)
{
	size_t i = o - launch_options;

	if (o < launch_options || i >= OPT_COUNT)
		return s->from->option(s->from->arg, o, value, s->err);
	s->values[i] = value;
	if (i == OPT_ENV) {
		const char **env = reallocarray(s->env, s->n_env + 1, sizeof(*env));

		if (!env)
			return launch_no_memory(s);
		s->env = env;
		s->env[s->n_env++] = value;
	}
	return 0;
}

/* Whether a word is an option rather than the value of the one before it: -5 is a number. */
static bool is_option(const char *word)
{
	if (word[0] != '-' || !word[1])
		return false;
	return !isdigit((unsigned char)word[1]) && word[1] != '.';
}

/* The value of o from *next, which is moved on. */
static int take_value(
	const struct launch_state *s, const struct arg_option *o, char ***next, const char **ret)
{
	char q[QUOTE_MAX];

	if (!**next)
		return error_set(s->err, -EINVAL, "--%s: expected a value (%s)", o->name, o->value);
	if (is_option(**next))
		return error_set(s->err, -EINVAL,
			"--%s: expected a value (%s), got the option %s; write --%s=VALUE if that "
			"is the value",
			o->name, o->value, quote_text(**next, q), o->name);
	*ret = *(*next)++;
	return 0;
}

static int read_long(struct launch_state *s, const char *word, char ***next)
{
	const char *equals = strchr(word, '='), *value = "";
	size_t len = equals ? (size_t)(equals - word - 2) : strlen(word + 2);
	const struct arg_option *o;
	char name[NAME_MAX_LEN];
	int r;

	if (len >= sizeof(name)) {
		char q[QUOTE_MAX];

		return error_set(s->err, -EINVAL, "unknown option %s", quote_text(word, q));
	}
	for (size_t i = 0; i < len; i++)
		name[i] = word[i + 2] == '_' ? '-' : word[i + 2];
	name[len] = '\0';
	o = find_long(s, name, word);
	if (!o)
		return -EINVAL;
	if (equals && !o->value)
		return error_set(s->err, -EINVAL, "--%s takes no value", o->name);
	if (equals) {
		value = equals + 1;
	} else if (o->value) {
		r = take_value(s, o, next, &value);
		if (r < 0)
			return r;
	}
	return store_value(s, o, value);
}

/* "-r 3", "-r3", "-r=3", and flags together. */
static int read_letters(struct launch_state *s, const char *p, char ***next)
{
	int r = 0;

	while (r == 0 && *p) {
		const struct arg_option *o = find_letter(s, *p++);
		const char *value = p;

		if (!o)
			return -EINVAL;
		if (!o->value) {
			r = store_value(s, o, "");
			continue;
		}
		if (*p == '=')
			value++;
		else if (!*p)
			r = take_value(s, o, next, &value);
		return r < 0 ? r : store_value(s, o, value);
	}
	return r;
}

static int read_words(struct launch_state *s, int argc, char **argv)
{
	char **next = argv + (argc > 0);
	int r = 0;

	while (r == 0 && *next) {
		const char *word = *next;

		if (!strcmp(word, "--")) {
			next++;
			break;
		}
		if (word[0] != '-' || !word[1])
			break;
		next++;
		r = word[1] == '-' ? read_long(s, word, &next) : read_letters(s, word + 1, &next);
	}
	s->command = next;
	s->n_command = (int)(argv + argc - next);
	return r;
}

/* A flag's variable is a number; 0 is off. */
static int read_pet_flag(struct launch_state *s, enum launch_id id, const char *text)
{
	char *end;
	long on = strtol(text, &end, 10);

	if (*end) {
		s->from_env[id] = true;
		return launch_expected(s, id, "0 or 1", text);
	}
	s->values[id] = on ? "" : NULL;
	return 0;
}

/* Reads the PET_ variables for options that the command line lacks. Empty ones count as unset. */
static int read_pet(struct launch_state *s)
{
	for (int i = 0; i < OPT_COUNT; i++) {
		char name[LAUNCH_PET_MAX];
		const char *value = NULL;
		int r = 0;

		if (!s->values[i] && launch_pet_name(&launch_options[i], name))
			value = getenv(name);
		if (!value || !*value)
			continue;
		if (launch_options[i].value) {
			s->values[i] = value;
			s->from_env[i] = true;
		} else {
			r = read_pet_flag(s, i, value);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

/* Makes the document that the flags change: the job file, which was checked alone, or one bare
 * role. */
static int begin_document(struct launch_state *s)
{
	static char word[] = "true", *no_program[] = { word, NULL };
	const char *path = s->values[OPT_SPEC];
	struct job_file file;
	int r;

	if (s->values[OPT_MODULE] && s->values[OPT_NO_PYTHON])
		return error_set(s->err, -EINVAL, "--module and --no-python exclude each other");
	if (!path) {
		if (!s->n_command && s->from->hosts_only) {
			s->command = no_program;
			s->n_command = 1;
		}
		if (!s->n_command)
			return error_set(
				s->err, -EINVAL, "expected a program to run, or --spec FILE");
		if (!*s->command[0])
			return error_set(s->err, -EINVAL, "expected a program to run, got \"\"");
		s->doc = json_pack("{s:[{s:s}]}", "roles", "name", "default");
		return s->doc ? 0 : launch_no_memory(s);
	}
	if (!*path)
		return error_set(s->err, -EINVAL, "--spec: expected a file, got \"\"");
	s->from_file = true;
	r = job_file_load(path, JOB_FILE_PART, &file);
	s->doc = TAKE_PTR(file.doc);
	s->problems = TAKE_PTR(file.problems);
	if (r == -ENOMEM)
		launch_no_memory(s);
	return r;
}

/* Keys whose errors name the flag. */
static const struct {
	enum launch_id id;
	const char *field;
	const char *word; /* the key in errors about others, or NULL */
} named[] = {
	{ OPT_NAME, "name", NULL },
	{ OPT_ROLE, "roles[0].name", NULL },
	{ OPT_PREFIX, "logs.prefix", NULL },
	{ OPT_RESTART_POLICY, "restart.policy", NULL },
	{ OPT_NNODES, "rendezvous.nodes", "`nodes`" },
	{ OPT_RDZV_BACKEND, "rendezvous.backend", NULL },
	{ OPT_RDZV_ENDPOINT, "rendezvous.endpoints", "`endpoints`" },
	{ OPT_RDZV_ID, "rendezvous.id", NULL },
	{ OPT_NODE_RANK, "rendezvous.node_rank", "`node_rank`" },
	{ OPT_MASTER_ADDR, "rendezvous.master_addr", "`master_addr`" },
	{ OPT_LOCAL_ADDR, "rendezvous.address", "`address`" },
	{ OPT_RDZV_CONF, "rendezvous.lead", NULL },
};
enum { N_NAMED = sizeof(named) / sizeof(named[0]) };

/* Copies an error's text, with flags for the keys that it mentions. */
static void name_other_flags(const struct launch_state *s, const char *from, char *to, size_t size)
{
	size_t n = 0;

	while (*from && n + 1 < size) {
		int i = 0;

		while (i < N_NAMED && (!named[i].word || strncmp(from, named[i].word,
								 strlen(named[i].word)) != 0))
			i++;
		if (i == N_NAMED || s->from_file) {
			to[n++] = *from++;
			continue;
		}
		n += (size_t)snprintf(to + n, size - n, "--%s", launch_options[named[i].id].name);
		from += strlen(named[i].word);
	}
	to[n < size ? n : size - 1] = '\0';
}

/* Replaces the key by the flag in an error about a value that came from a flag, or that a flag
 * should have given. */
static int name_flag(struct launch_state *s)
{
	char origin[LAUNCH_PET_MAX], text[sizeof(s->err->text)];

	for (int i = 0; i < N_NAMED; i++) {
		size_t len = strlen(named[i].field);
		bool wanted = !s->from_file && !strncmp(named[i].field, "rendezvous.", 11);

		if ((!s->values[named[i].id] && !wanted) ||
			strncmp(s->err->text, named[i].field, len) != 0 ||
			strncmp(s->err->text + len, ": ", 2) != 0)
			continue;
		name_other_flags(s, s->err->text + len + 2, text, sizeof(text));
		return error_field(
			s->err, s->err->code, launch_origin(s, named[i].id, origin), "%s", text);
	}
	return s->err->code;
}

/* run starts workers as its caller: refuses a job file whose user is another one. */
static int check_user(const struct launch_state *s)
{
	const char *user = json_get_string(s->doc, "user", NULL);
	const struct passwd *own;

	if (!user || !s->from->foreground || s->from->hosts_only)
		return 0;
	own = getpwuid(geteuid());
	if (own && !strcmp(own->pw_name, user))
		return 0;
	return error_field(s->err, -EINVAL, "user",
		"run starts workers as its caller; \"elasticctl start\" can start them as %s",
		user);
}

static int build_document(struct launch_state *s)
{
	_cleanup_(spec_freep) struct spec *spec = NULL;
	int r = begin_document(s);

	for (int i = 0; r == 0 && i < OPT_COUNT; i++)
		if (s->values[i])
			r = launch_rows[i].apply(s, i, s->values[i]);
	if (r == 0)
		r = launch_finish(s);
	if (r < 0)
		return r;
	r = spec_parse(s->doc, &spec, s->err);
	return r < 0 ? name_flag(s) : check_user(s);
}

int launch_parse(int argc, char **argv, const struct launch_from *from, struct launch *ret,
	struct error *err)
{
	struct error unused;
	struct launch_state s = { .from = from, .err = err ? err : &unused };
	struct launch l = { 0 };
	int r = read_words(&s, argc, argv);

	if (r == 0)
		r = read_pet(&s);
	if (r == 0)
		r = build_document(&s);
	free(s.env);
	l.spec = s.doc;
	l.warnings = s.warnings;
	l.problems = s.problems;
	l.dry_run = s.values[OPT_DRY_RUN] != NULL;
	if (r == 0 || r == -EBADMSG)
		*ret = l;
	else
		launch_fini(&l);
	return r;
}

void launch_fini(struct launch *l)
{
	json_decref(l->spec);
	strings_free(l->warnings);
	strings_free(l->problems);
	*l = (struct launch){ 0 };
}
