/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/head.h"
#include "agent/hosts/lead.h"
#include "agent/hosts/settings.h"
#include "common/base/log.h"
#include "common/text/json.h"
#include "common/text/topology.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The messages of members, and the ends of their links. */

enum { HEAR_UNJOINED_MAX = 64 }; /* links whose host is no member */

struct head_host *head_host_free(struct head_host *x)
{
	struct head *h;

	if (!x)
		return NULL;
	h = x->head;
	if (x->number < 0) {
		LIST_REMOVE(x, entry);
	} else {
		lease_remove(&h->leases, &x->lease);
		h->members[x->number] = NULL;
	}
	calls_out_cut(&x->calls, "it was lost");
	calls_out_fini(&x->calls);
	sharing_host_free(x->sharing);
	link_free(x->link);
	free(x->address);
	free(x->master_addr);
	json_decref(x->addresses);
	json_decref(x->join);
	free(x);
	return NULL;
}

void head_unlink(struct head_host *x)
{
	x->link = link_free(x->link);
	calls_out_cut(&x->calls, "its link has ended");
	if (x->number < 0)
		head_host_free(x);
}

void head_note_change(struct head *h, const char *name, const char *what)
{
	snprintf(h->change, sizeof(h->change), "host %.64s %.240s", name, what);
}

/* The replicas of each role of the group's specification, in its order. */
static int hear_replicas(const struct head *h, const json_t *roles, int *ret, struct error *err)
{
	const struct spec *spec = h->spec;
	const json_t *one;
	size_t i;

	json_array_foreach (roles, i, one) {
		const char *name = json_get_string(one, "role", "");
		size_t k = 0;

		while (k < spec->n_roles && strcmp(spec->roles[k].name, name))
			k++;
		if (k == spec->n_roles)
			return error_field(err, -EINVAL, "roles",
				"expected the roles of the group's head, got \"%.60s\"", name);
		ret[k] = (int)json_get_int(one, "replicas", 0);
	}
	return 0;
}

/* A member keeps its run, and no other host has that run. */
static int hear_run(const struct head_host *x, const struct round_join *join, struct error *err)
{
	const struct round_host *own = round_host(x->head->round, x->number);
	const struct round_host *same = round_host_of_run(x->head->round, join->run);

	if (own && strcmp(own->run, join->run) != 0)
		return error_field(err, -EPROTO, "run",
			"expected %.80s, as this link has joined with it", own->run);
	if (same && same != own && strcmp(same->boot, join->boot) != 0)
		return error_field(
			err, -EEXIST, "run", "host %.64s takes part with the same one", same->name);
	return 0;
}

/* A new head counts attempts and restarts on from the numbers that members know: attempts name log
 * directories. */
static void hear_past(struct head *h, const json_t *p)
{
	if (head_has_begun(h)) /* this head knows better */
		return;
	if (h->attempt < json_get_int(p, "attempts", 0))
		h->attempt = (int)json_get_int(p, "attempts", 0);
	if (h->budget.used < json_get_int(p, "restarts", 0))
		h->budget.used = (int)json_get_int(p, "restarts", 0);
	head_show_budget(h);
}

int head_hear_join(struct head_host *x, const json_t *p, struct error *err)
{
	struct head *h = x->head;
	const struct link_peer *peer = link_peer(x->link);
	const json_t *last = json_get_object(p, "last"), *settings = json_get_array(p, "settings");
	_cleanup_free_ char *digest = settings ? settings_digest(settings) : strdup(h->digest);
	_cleanup_free_ int *replicas = calloc(h->spec->n_roles, sizeof(*replicas));
	struct round_join join = {
		.run = json_get_string(p, "run", ""),
		.agent = peer->agent,
		.boot = peer->boot,
		.name = peer->host,
		.digest = digest,
		.node_rank = (int)json_get_int(p, "node_rank", -1),
		.known_round = (uint64_t)json_get_int(p, "known_round", 0),
		.last_round = (uint64_t)json_get_int(last, "round", 0),
		.last_rank = (int)json_get_int(last, "group_rank", -1),
		.replicas = replicas,
		.topology = json_get_string(p, "topology", NULL),
		.kept_until_ms = quarantine_until(&h->quarantine, peer->host, hosts_now_ms()),
	};
	char *address = strdup(json_get_string(p, "address", ""));
	int r;

	if (!digest || !replicas || !address) {
		free(address);
		return error_set(err, -ENOMEM, "out of memory");
	}
	free(x->address);
	x->address = address;
	if (strcmp(digest, h->digest))
		return settings_differ(
			h->settings, settings, supervisor_host(h->hosts->sv), join.name, err);
	if (join.topology && !topology_is(join.topology))
		return error_field(
			err, -EINVAL, "rendezvous.topology", "expected " TOPOLOGY_EXPECTED);
	r = hear_replicas(h, json_get_array(p, "roles"), replicas, err);
	if (!r)
		r = hear_run(x, &join, err);
	if (r < 0)
		return r;
	hear_past(h, p);
	head_note_change(h, join.name, "has joined");
	head_note_last_answer(h, join.run, json_get_int(p, "answered_ms", 0));
	h->joining = x;
	h->refusal = err;
	r = round_join(h->round, &join, hosts_now_ms());
	if (r < 0)
		error_field(err, r, r == -EINVAL ? "last" : "", "%s",
			r == -EINVAL ? "expected a round and a rank that can be" : "out of memory");
	else
		head_carry_out(h);
	h->joining = NULL;
	h->refusal = NULL;
	return err->code;
}

/* Join waits until etcd confirms that this host leads. */
static int hear_join(struct head_host *x, const json_t *p, struct error *err)
{
	if (head_may_admit(x->head))
		return head_hear_join(x, p, err);
	json_decref(x->join);
	x->join = json_incref((json_t *)p);
	return 0;
}

/* Posts what a member says about a round. */
static int hear_event(
	struct head_host *x, enum host_event event, const json_t *p, struct error *err)
{
	struct head *h = x->head;
	int r = round_hear(
		h->round, x->number, event, (uint64_t)json_get_int(p, "round", 0), hosts_now_ms());

	if (r < 0)
		return error_field(err, -EPROTO, "method", "%s does not fit the state of this host",
			host_event_name(event));
	if (!r)
		head_carry_out(h);
	return 0;
}

static int hear_check_addresses(const struct head_host *x, const struct round_host *host,
	const json_t *addresses, struct error *err)
{
	const struct spec *spec = x->head->spec;
	const json_t *one;
	size_t i, n = 0;

	json_array_foreach (addresses, i, one) {
		const char *role = json_get_string(one, "role", "");
		int64_t index = json_get_int(one, "index", -1);

		for (size_t k = 0; k < spec->n_roles; k++)
			n += !spec->roles[k].evaluator && !strcmp(spec->roles[k].name, role) &&
			     index >= host->first_index[k] &&
			     index < (int64_t)host->first_index[k] + host->workers &&
			     strlen(json_get_string(one, "address", "")) < HOSTS_ADDRESS;
	}
	if (n == json_array_size(addresses))
		return 0;
	return error_field(err, -EPROTO, "addresses", "expected those of this host's workers");
}

/* The environment of all workers gets these values. */
static int hear_check_prepared(const struct head_host *x, const json_t *p, struct error *err)
{
	const struct round_host *host = round_host(x->head->round, x->number);
	const char *addr = json_get_string(p, "master_addr", NULL);

	if (!host || host->round != (uint64_t)json_get_int(p, "round", 0))
		return 0;
	if (addr && strlen(addr) >= HOSTS_ADDRESS)
		return error_field(err, -EPROTO, "master_addr", "expected at most %d bytes",
			HOSTS_ADDRESS - 1);
	if (host->group_rank == 0 && !host->seat && (!addr || !json_get_int(p, "master_port", 0)))
		return error_field(err, -EPROTO, "master_port",
			"expected the address and the port of the master");
	return hear_check_addresses(x, host, json_get_array(p, "addresses"), err);
}

static int hear_prepared(struct head_host *x, const json_t *p, struct error *err)
{
	const char *addr = json_get_string(p, "master_addr", NULL);
	int r = hear_check_prepared(x, p, err);

	if (r < 0)
		return r;
	if (x->acked_ms < x->admitted_ms) /* Prepared shows that it got the answer to its Join */
		x->acked_ms = x->admitted_ms;
	free(x->master_addr);
	x->master_addr = addr ? strdup(addr) : NULL;
	x->master_port = (int)json_get_int(p, "master_port", 0);
	json_decref(x->addresses);
	x->addresses = json_incref(json_get_array(p, "addresses"));
	return hear_event(x, HOST_EV_PREPARED, p, err);
}

static int hear_unable(struct head_host *x, const json_t *p, struct error *err)
{
	log_warning("host %s cannot take part: %s", head_host_name(x->head, x->number),
		json_get_string(p, "why", ""));
	return hear_event(x, HOST_EV_UNABLE, p, err);
}

static int hear_started(struct head_host *x, const json_t *p, struct error *err)
{
	return hear_event(x, HOST_EV_STARTED, p, err);
}

/* A host reports on its own workers only. */
static int hear_check_rank(const struct round_host *host, const json_t *of, struct error *err)
{
	int64_t rank = json_get_int(of, "rank", -1);

	if (rank >= host->first_rank && rank < (int64_t)host->first_rank + host->workers)
		return 0;
	return error_field(err, -EPROTO, "rank",
		"expected that of a worker of this host, which has %d from rank %d on, got %lld",
		host->workers, host->first_rank, (long long)rank);
}

static int hear_report(struct head_host *x, const json_t *p, struct error *err)
{
	const json_t *failure = json_get_object(p, "failure");
	const struct round_host *host = round_host(x->head->round, x->number);
	const char *name = json_get_string(p, "worker", "");
	int r;

	if (!host || host->round != (uint64_t)json_get_int(p, "round", 0))
		return 0; /* of an earlier round */
	r = hear_check_rank(host, p, err);
	if (!r && failure)
		r = hear_check_rank(host, failure, err);
	if (r < 0)
		return r;
	if (!sharing_group_is_called(x->head->sharing, json_get_int(p, "rank", -1), name))
		return error_field(err, -EPROTO, "worker",
			"expected the name of the worker of that rank, got \"%.100s\"", name);
	if (!failure)
		sharing_group_report(x->head->sharing, p);
	if (failure)
		head_worker_failed(x->head, x, failure, json_get_bool(p, "over", false));
	else
		head_worker_changed(x->head, x, p);
	return 0;
}

static int hear_gone(struct head_host *x, const json_t *p, struct error *err)
{
	const json_t *failures = json_get_array(p, "failures"), *failure;
	const struct round_host *host = round_host(x->head->round, x->number);
	size_t i;

	if (host && host->round == (uint64_t)json_get_int(p, "round", 0)) {
		json_array_foreach (failures, i, failure) {
			int r = hear_check_rank(host, failure, err);

			if (r < 0)
				return r;
		}
		head_add_failures(x->head, failures);
		if (host->state == HOST_STOPPING)
			head_blame_host(x->head);
	}
	return hear_event(x, HOST_EV_STOPPED, p, err);
}

/* why: NULL, or the reason why the head does not do what the host has asked for. */
static void hear_reply(struct head_host *x, int64_t number, const struct error *why)
{
	json_t *body = json_pack("{s:I}", "number", (json_int_t)number);

	if (why) {
		json_put(body, "why", json_text(why->text));
		json_put(body, "unknown", json_boolean(why->code == -ENOENT));
	}
	head_say(x, "Reply", body);
}

static int hear_ask(struct head_host *x, const json_t *p, struct error *err)
{
	const char *text = json_get_string(p, "text", ""), *want = json_get_string(p, "want", "");
	int64_t number = json_get_int(p, "number", 0);
	struct error why = { 0 };
	int r = 0;

	if (!strcmp(want, "let_back"))
		r = head_let_back(x->head, json_get_string(p, "host", ""), text, &why);
	else if (!strcmp(want, "drain"))
		r = head_drain(x->head, json_get_string(p, "host", ""), text, &why);
	if (number)
		hear_reply(x, number, r < 0 ? &why : NULL);
	if (!strcmp(want, "restart"))
		head_restart_asked(x->head, text);
	else if (!strcmp(want, "stop"))
		(void)head_stop(x->head, json_get_int(p, "timeout_ms", SPEC_UNSET), text);
	return 0;
}

static int hear_renewed(struct head_host *x, const json_t *p, struct error *err)
{
	if (x->head->hosts->lead)
		lead_renewed(x->head->hosts->lead, json_get_int(p, "number", 0),
			json_get_int(p, "ttl_s", 0));
	return 0;
}

static int hear_leave(struct head_host *x, const json_t *p, struct error *err)
{
	char what[256];

	snprintf(what, sizeof(what), "leaves the group: %.200s", json_get_string(p, "text", ""));
	head_note_change(x->head, head_host_name(x->head, x->number), what);
	return hear_event(x, HOST_EV_LEAVE, p, err);
}

static int hear_bye(struct head_host *x, const json_t *p, struct error *err)
{
	head_note_change(x->head, head_host_name(x->head, x->number), "has left the group");
	return hear_event(x, HOST_EV_BYE, p, err);
}

static const struct {
	const char *method;
	bool member; /* only a member may send it */
	int (*hear)(struct head_host *x, const json_t *p, struct error *err);
} head_methods[] = {
	{ "Join", false, hear_join },
	{ "Prepared", true, hear_prepared },
	{ "Unable", true, hear_unable },
	{ "Started", true, hear_started },
	{ "Report", true, hear_report },
	{ "Gone", true, hear_gone },
	{ "Ask", true, hear_ask },
	{ "Notice", true, head_hear_notice },
	{ "Hang", true, head_hear_hang },
	{ "Dumped", true, head_hear_dumped },
	{ "Deputy", true, head_hear_deputy },
	{ "Recorded", true, head_hear_recorded },
	{ "Renewed", true, hear_renewed },
	{ "Leave", true, hear_leave },
	{ "Bye", true, hear_bye },
};

/* About workers, not about hosts: relay.c. */
static const char *const head_relayed[] = { "Call", "Answer", "Flow", "Hangup", "Samples",
	"Steps" };

static int head_hear(void *arg, const char *method, json_t *p, struct error *err)
{
	struct head_host *x = arg;

	for (size_t i = 0; i < sizeof(head_relayed) / sizeof(head_relayed[0]); i++)
		if (!strcmp(head_relayed[i], method))
			return head_hear_relayed(x, method, p, err);
	for (size_t i = 0; i < sizeof(head_methods) / sizeof(head_methods[0]); i++) {
		if (strcmp(head_methods[i].method, method))
			continue;
		/* A host goes on sending until it learns that it was lost. */
		if (head_methods[i].member && x->number < 0)
			return 0;
		return head_methods[i].hear(x, p, err);
	}
	return error_field(
		err, -EPROTO, "method", "expected a message of a member, got \"%.60s\"", method);
}

/* A link that ends proves nothing about the workers of its host: the lease does. */
static void head_on_state(void *arg, enum link_state state, const struct error *why)
{
	struct head_host *x = arg;

	if (state != LINK_ENDED)
		return;
	if (why && x->number >= 0)
		log_warning("the link to host %s has ended: %s", head_host_name(x->head, x->number),
			why->text);
	head_unlink(x);
}

static void head_on_beat(void *arg, const struct link_beat *beat)
{
	struct head_host *x = arg;
	struct head *h = x->head;

	x->beat = *beat;
	if (beat->acked_boot_us)
		x->acked_ms = (uint64_t)beat->acked_boot_us / 1000;
	/* Hosts that are linked to a candidate have no workers of its. */
	if (h == h->hosts->head && h->hosts->lead && !lead_holds(h->hosts->lead)) {
		head_unlink(x); /* without an answer, its lease ends */
		return;
	}
	if (x->number >= 0)
		lease_came(&h->leases, &x->lease, (uint64_t)beat->came_boot_us / 1000);
}

static const struct link_events head_link_events = {
	.message = head_hear,
	.state = head_on_state,
	.beat = head_on_beat,
};

/* Ends the links of hosts that have been no members for a lease, and whose Join does not wait.
 * Returns how many other hosts are no members. */
static int head_forget_unjoined(struct head *h)
{
	int n = 0;

	for (struct head_host *x = LIST_FIRST(&h->unjoined), *next; x; x = next) {
		next = LIST_NEXT(x, entry);
		if (x->join)
			continue;
		if (hosts_now_ms() - x->since_ms > h->leases.lease_ms)
			head_host_free(x);
		else
			n++;
	}
	return n;
}

int head_accept_link(void *arg, struct link *l, struct error *err)
{
	struct head *h = arg;
	struct head_host *x;

	if (head_forget_unjoined(h) >= HEAR_UNJOINED_MAX)
		return error_field(err, -EBUSY, "rendezvous.endpoints",
			"%d hosts that have not joined are linked already", HEAR_UNJOINED_MAX);
	x = calloc(1, sizeof(*x));
	if (!x)
		return error_set(err, -ENOMEM, "out of memory");
	x->since_ms = hosts_now_ms();
	x->head = h;
	x->number = -1;
	x->link = l;
	head_host_calls_open(x);
	LIST_INSERT_HEAD(&h->unjoined, x, entry);
	link_accept(l, &head_link_events, x);
	return 0;
}

void head_link_refused(void *arg, const struct error *why)
{
	log_warning("a connection was refused: %s", why->text);
}

void head_last_word(void *arg, struct link *l)
{
	struct head *h = arg;

	struct head_host *x = NULL;

	while ((x = head_next_member(h, x)) && x->link != l)
		;
	if (!x)
		return;
	log_warning("the agent of host %s has ended", head_host_name(h, x->number));
	head_note_change(h, head_host_name(h, x->number), "was lost");
	if (!round_hear(h->round, x->number, HOST_EV_LOST, 0, hosts_now_ms()))
		head_carry_out(h);
}
