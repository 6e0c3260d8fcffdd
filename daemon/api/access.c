/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/access.h"

#include "common/base/strings.h"
#include "common/base/user_name.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

enum {
	CACHE_SIZE = 64,
	CACHE_MS = 10000,
};

struct access_entry {
	bool used;
	uid_t uid;
	gid_t gid;
	enum access_level level;
	uint64_t until_ms;
};

struct access {
	struct access_rules rules;
	char **admin_groups; /* at most one, as a list like the other */
	char **allow_groups;
	char **allow_users;
	struct access_entry cache[CACHE_SIZE];
};

enum access_level access_decide(const struct access_rules *rules, const struct access_peer *peer)
{
	if (peer->uid == 0 || peer->uid == rules->own_uid || peer->in_admin_group)
		return ACCESS_ALL;
	if (!rules->restricted || peer->in_allowed_group || peer->is_allowed_user)
		return ACCESS_OWN;
	return ACCESS_NONE;
}

bool access_job(enum access_level level, uid_t uid, uid_t owner)
{
	return level == ACCESS_ALL || (level == ACCESS_OWN && uid == owner);
}

int access_job_user(uid_t own_uid, uid_t caller, uid_t wanted, uid_t *ret, struct error *err)
{
	if (own_uid != 0) {
		/* A daemon that runs as an ordinary user cannot start jobs as another user. */
		if (wanted != (uid_t)-1 && wanted != own_uid)
			return error_set(err, -EPERM,
				"user: this elasticd runs as user %u and can start jobs only as "
				"that user",
				(unsigned)own_uid);
		if (caller != own_uid && caller != 0)
			return error_set(err, -EPERM,
				"this elasticd runs as user %u and starts no jobs for user %u",
				(unsigned)own_uid, (unsigned)caller);
		*ret = own_uid;
		return 0;
	}
	if (wanted != (uid_t)-1 && wanted != caller && caller != 0)
		return error_set(err, -EPERM, "user: only root may choose another user");
	*ret = wanted != (uid_t)-1 ? wanted : caller;
	return 0;
}

int access_new(const char *admin_group, char *const *allow_groups, char *const *allow_users,
	struct access **ret)
{
	char *admin[] = { (char *)admin_group, NULL };
	struct access *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	a->rules.own_uid = geteuid();
	a->rules.restricted = (allow_groups && *allow_groups) || (allow_users && *allow_users);
	a->admin_groups = strings_copy(admin_group && *admin_group ? admin : NULL);
	a->allow_groups = strings_copy(allow_groups);
	a->allow_users = strings_copy(allow_users);
	if (!a->admin_groups || !a->allow_groups || !a->allow_users) {
		access_free(a);
		return -ENOMEM;
	}
	*ret = a;
	return 0;
}

struct access *access_free(struct access *a)
{
	if (!a)
		return NULL;
	strings_free(a->admin_groups);
	strings_free(a->allow_groups);
	strings_free(a->allow_users);
	free(a);
	return NULL;
}

static bool in_any(char *const *names, const gid_t *groups, int n)
{
	for (; *names; names++) {
		const struct group *g = getgrnam(*names);
		gid_t gid;

		if (!g)
			continue;
		gid = g->gr_gid;
		for (int i = 0; i < n; i++)
			if (groups[i] == gid)
				return true;
	}
	return false;
}

static bool is_listed(char *const *names, const char *user)
{
	for (; *names; names++)
		if (!strcmp(*names, "*") || (user && !strcmp(*names, user)))
			return true;
	return false;
}

static enum access_level look_up(const struct access *a, uid_t uid, gid_t gid)
{
	struct access_peer peer = { .uid = uid };
	const struct passwd *pw = getpwuid(uid);
	_cleanup_free_ char *user = pw ? strdup(pw->pw_name) : NULL;
	_cleanup_free_ gid_t *groups = NULL;
	int n = 0;

	if (!user || user_groups(user, gid, &groups, &n) < 0) {
		/* A user without an entry in the user database has its primary group only. */
		groups = malloc(sizeof(*groups));
		if (!groups)
			return ACCESS_NONE;
		groups[0] = gid;
		n = 1;
	}
	peer.in_admin_group = in_any(a->admin_groups, groups, n);
	peer.in_allowed_group = in_any(a->allow_groups, groups, n);
	peer.is_allowed_user = is_listed(a->allow_users, user);
	return access_decide(&a->rules, &peer);
}

void access_refusal(const struct access *a, uid_t uid, char *buf, size_t size)
{
	char *const *lists[] = { a->admin_groups, a->allow_groups, a->allow_users };
	const char *const kinds[] = { "members of group", "members of group", "user" };
	char name[USER_NAME_MAX];
	size_t n;

	snprintf(buf, size, "user %s may not use this elasticd; it serves root",
		user_name(uid, name));
	for (size_t k = 0; k < 3; k++)
		for (char *const *p = lists[k]; *p && (n = strlen(buf)) + 1 < size; p++)
			snprintf(buf + n, size - n, ", %s %s", kinds[k], *p);
}

enum access_level access_level(struct access *a, uid_t uid, gid_t gid, uint64_t now_ms)
{
	struct access_entry *e = &a->cache[uid % CACHE_SIZE];

	if (uid == 0 || uid == a->rules.own_uid)
		return ACCESS_ALL;
	if (!e->used || e->uid != uid || e->gid != gid || e->until_ms <= now_ms)
		*e = (struct access_entry){ .used = true,
			.uid = uid,
			.gid = gid,
			.level = look_up(a, uid, gid),
			.until_ms = now_ms + CACHE_MS };
	return e->level;
}
