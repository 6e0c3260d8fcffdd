/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Large groups in virtual time: hosts join, leave, are lost, have their links cut, one way too, or
 * broken, and workers fail. However that goes, each round costs at most MESSAGES numbered messages
 * and BYTES bytes for each host that is there, and some more:
 *
 *   A round counts from where all workers of the one before execute to where all of its own do.
 *   Where the head assigns hosts several times before that, the bound counts for each time.
 *   There are at most TRIES of these, and TRIES_MORE for each trouble, however many hosts it hits.
 *   What a broken connection had not acknowledged is sent again, beyond the bound.
 *   Fewer than FEW hosts have FEW_BYTES more for what is said once.
 *   A failed worker has TOLD_BYTES more for each host, which all learn of it.
 *   Beats, and the handshake of each connection, are those of links: they are counted apart.
 *
 * The environment has a larger group for `make bench`: SIMULATED_HOSTS, SIMULATED_ROUNDS and
 * SIMULATED_SEED. SIMULATED_FIGURES prints what was counted, as JSON.
 */

#include "tests/unit/child.h"
#include "tests/unit/run.h"
#include "tests/unit/simulated_hosts.h"

enum {
	TRIES = 2,
	TRIES_MORE = 2,
	MESSAGES = 6,
	MORE_MESSAGES = 10,
	BYTES = 1024,
	TOLD_BYTES = 512,
	FEW = 64,
	FEW_BYTES = 4096
};

static struct {
	int rounds;
	int disturbed, failures;
	double messages, bytes; /* for each host, at most, in a round that was not disturbed */
	double disturbed_messages, disturbed_bytes;
	long sent, octets, again, beats, handshakes;
	int most_waves;
	int troubles, before; /* of the present window, and of the one before */
} figures;

/* --- rounds --- */

static void note(const char *what, int n)
{
	size_t len = strlen(s.trail);

	if (len + 40 > sizeof(s.trail)) {
		memmove(s.trail, s.trail + 200, len - 199);
		len -= 200;
	}
	snprintf(s.trail + len, sizeof(s.trail) - len, " %s %d", what, n);
}

static void check_costs(void)
{
	const struct tally *t = &s.tally;
	int troubles = figures.troubles + figures.before;
	long messages = t->messages[MEMBER] + t->messages[HEAD] - t->again;
	long bytes = t->bytes[MEMBER] + t->bytes[HEAD] - t->again_bytes;
	long each = BYTES + (t->failures ? TOLD_BYTES : 0);

	if (messages > (long)t->waves * (MESSAGES * t->hosts + MORE_MESSAGES))
		wrong("round %llu of %d hosts took %ld messages in %d tries",
			(unsigned long long)round_number(g.round), t->hosts, messages, t->waves);
	if (t->waves > TRIES + TRIES_MORE * troubles)
		wrong("round %llu took %d tries after %d troubles",
			(unsigned long long)round_number(g.round), t->waves, troubles);
	if (bytes > t->waves * (each * t->hosts + (t->hosts < FEW ? FEW_BYTES : 0)))
		wrong("round %llu of %d hosts took %ld bytes in %d tries",
			(unsigned long long)round_number(g.round), t->hosts, bytes, t->waves);
}

static double most(double a, double b)
{
	return a > b ? a : b;
}

static void count_costs(void)
{
	const struct tally *t = &s.tally;
	long messages = t->messages[MEMBER] + t->messages[HEAD];
	long bytes = t->bytes[MEMBER] + t->bytes[HEAD];
	double n = t->hosts;

	figures.rounds++;
	figures.failures += t->failures > 0;
	figures.sent += messages;
	figures.octets += bytes;
	figures.again += t->again;
	figures.beats += t->beats;
	figures.handshakes += t->handshakes;
	if (t->waves > figures.most_waves)
		figures.most_waves = t->waves;
	if (t->waves > 1 || t->again || t->failures) {
		figures.disturbed++;
		figures.disturbed_messages = most(figures.disturbed_messages, (double)messages / n);
		figures.disturbed_bytes = most(figures.disturbed_bytes, (double)bytes / n);
	} else {
		figures.messages = most(figures.messages, (double)messages / n);
		figures.bytes = most(figures.bytes, (double)bytes / n);
	}
}

/* The host of the next rank after the first one's. */
static void choose_deputy(void)
{
	const struct round_host *host = NULL;

	while ((host = round_next_host(g.round, host)))
		if (host->state == HOST_RUNNING && host->group_rank == 1)
			break;
	if (!host || member_of(host->number) == g.deputy)
		return;
	g.deputy = member_of(host->number);
	head_says(g.deputy, "Deputize", message_deputize("0123456789abcdef0123456789abcdef"));
}

static void round_runs(void)
{
	check_costs();
	count_costs();
	s.tally = (struct tally){ 0 };
	figures.before = figures.troubles;
	figures.troubles = 0;
	g.window++;
	for (int i = 0; i < s.n_hosts; i++)
		if (s.hosts[i].number >= 0)
			count_there(&s.hosts[i]);
	note("| round", (int)round_number(g.round));
	choose_deputy();
}

/* --- trouble --- */

/* Host 0 has the head. */
static struct shost *any_host(void)
{
	return &s.hosts[1 + chance((uint32_t)s.n_hosts - 1)];
}

static void cut(struct shost *h, int ways)
{
	for (int i = 0; i < SIDES; i++)
		h->way[i].cut |= ways >> i & 1;
	post(s.now_ms + between(1, 2 * LEASE),
		(struct event){ .kind = EV_HEALED, .host = host_index(h), .n = s.now_ms });
}

/* Connections do not outlive a lease in which nothing arrives. */
static void is_healed(struct shost *h, uint64_t since_ms)
{
	heal(h, MEMBER);
	heal(h, HEAD);
	if (s.now_ms - since_ms > LEASE)
		link_breaks(h);
}

static void worker_fails(struct shost *h)
{
	_cleanup_json_ json_t *failure = NULL;
	json_t *body;
	char name[32];

	if (h->state != MEMBER_RUNNING || !h->worker)
		return;
	snprintf(name, sizeof(name), "worker:%d", h->first_rank);
	body = message_report(h->round, name, h->first_rank, 0, "exited", 1764000000000000);
	json_put(body, "exit", json_pack("{s:i}", "code", 1));
	json_put_string(body, "state", "failed");
	send(h, MEMBER, "Report", body);
	failure = json_pack("{s:s, s:i, s:i, s:i, s:s, s:i, s:i, s:I, s:i, s:s, s:{s:i}, s:s, s:b}",
		"role", "worker", "index", h->first_rank, "rank", h->first_rank, "local_rank", 0,
		"host", h->name, "pid", 4711, "attempt", h->attempt, "time_us",
		INT64_C(1764000000000000), "uncertainty_us", 120, "class", "exit", "exit", "code",
		1, "message", "exited with code 1 and left no error file", "collateral", 0);
	body = message_report(h->round, name, h->first_rank, 0, "failed", 1764000000000000);
	json_put(body, "failure", json_incref(failure));
	send(h, MEMBER, "Report", body);
}

enum trouble { LOSS, CRASH, CUT, CUT_UP, CUT_DOWN, BREAK, LEAVE, FAILURE, N_TROUBLES };

static void befall(enum trouble what, struct shost *h)
{
	if (!h->alive)
		return;
	switch (what) {
	case LOSS:
	case CRASH:
		agent_dies(h, what == CRASH);
		break;
	case CUT:
		cut(h, 1 << MEMBER | 1 << HEAD);
		break;
	case CUT_UP:
		cut(h, 1 << HEAD);
		break;
	case CUT_DOWN:
		cut(h, 1 << MEMBER);
		break;
	case BREAK:
		link_breaks(h);
		break;
	case LEAVE:
		member_posts(h, MEMBER_EV_LEAVE);
		break;
	case FAILURE:
		worker_fails(h);
		break;
	case N_TROUBLES:
		break;
	}
}

/* Of few hosts in most cases. */
static void trouble_comes(void)
{
	static const char *const names[N_TROUBLES] = { "loss", "crash", "cut", "cut-up", "cut-down",
		"break", "leave", "failure" };
	enum trouble what = chance(N_TROUBLES);
	int n = chance(8) ? 1 + (int)chance(3) : 1 + (int)chance((uint32_t)s.n_hosts / 8 + 1);

	post(s.now_ms + between(100, 6000), (struct event){ .kind = EV_TROUBLE });
	if (round_state(g.round) != ROUND_RUNNING && chance(8))
		return;
	if (what == FAILURE)
		n = 1;
	figures.troubles++;
	note(names[what], n);
	for (int i = 0; i < n; i++)
		befall(what, any_host());
}

static void outside_happens(const struct event *e)
{
	struct shost *h = &s.hosts[e->host];

	if (e->kind == EV_BORN)
		agent_is_born(h);
	else if (e->kind == EV_HEALED)
		is_healed(h, e->n);
	else if (e->kind == EV_TROUBLE)
		trouble_comes();
}

/* --- a life of a group --- */

static void parse_spec(int hosts)
{
	char text[512];
	struct error err = { 0 };
	_cleanup_json_ json_t *settings = NULL;

	/* Every 16th host is a spare. */
	snprintf(text, sizeof(text),
		"{\"name\":\"train\",\"restart\":{\"max\":1000000},\"roles\":[{\"replicas\":%d,"
		"\"command\":[\"python3\",\"-u\",\"train.py\"]}],\"rendezvous\":{\"backend\":\"etcd\","
		"\"endpoints\":\"etcd:2379\",\"id\":\"exp7\",\"nodes\":\"%d:%d\"}}",
		WORKERS, hosts / 2, hosts - hosts / 16);
	if (spec_parse_text(text, strlen(text), &g.spec, &err) < 0)
		wrong("%s", err.text);
	settings = settings_of(g.spec);
	g.digest = settings_digest(settings);
}

static void head_begins(void)
{
	const struct spec_rendezvous *z = &g.spec->rendezvous;
	const struct round_config c = { .min = z->nodes_min,
		.max = z->nodes_max,
		.last_call_ms = (uint64_t)z->last_call_ms,
		.join_timeout_ms = (uint64_t)z->join_timeout_ms,
		.prepare_timeout_ms = (uint64_t)z->prepare_timeout_ms,
		.join_delay_ms = (uint64_t)z->join_delay_ms,
		.lease_ms = LEASE,
		.roles = { 1, &g.first_only },
		.digest = g.digest,
		.records = true };

	g.round = round_new(&c, s.now_ms);
	g.leases.lease_ms = LEASE;
	g.due_ms = UINT64_MAX;
	g.why = "membership";
	g.window = 1;
	g.host_of = calloc((size_t)s.n_hosts * 4, sizeof(int));
	g.rank_taken = calloc((size_t)s.n_hosts * WORKERS, sizeof(bool));
	ck_assert(g.round && g.host_of && g.rank_taken);
	for (int i = 0; i < s.n_hosts * 4; i++)
		g.host_of[i] = -1;
}

/* One link in 50 is slow, and one in 10 goes far. */
static uint64_t some_delay(void)
{
	uint32_t luck = chance(50);

	return luck == 0 ? between(300, 900) : luck < 6 ? between(10, 80) : 1;
}

static void group_begins(int hosts, uint32_t seed)
{
	struct varlink_idl *idl;

	memset(&s, 0, sizeof(s));
	memset(&g, 0, sizeof(g));
	s.now_ms = 1000;
	s.seed = seed;
	s.n_hosts = hosts;
	s.hosts = calloc((size_t)hosts, sizeof(*s.hosts));
	ck_assert_ptr_nonnull(s.hosts);
	ck_assert_int_eq(link_message_interface(&idl), 0);
	s.idl = idl;
	parse_spec(hosts);
	head_begins();
	for (int i = 0; i < hosts; i++) {
		struct shost *h = &s.hosts[i];

		snprintf(h->name, sizeof(h->name), "node%05d.cluster.example.com", i);
		snprintf(h->run, sizeof(h->run), "train.node%05d_%08x", i, next_random(&s.seed));
		h->number = -1;
		h->delay_ms = i ? some_delay() : 1;
		post(s.now_ms + chance(20000), (struct event){ .kind = EV_BORN, .host = i });
	}
	post(s.now_ms + 30000, (struct event){ .kind = EV_TROUBLE });
}

static void group_ends(void)
{
	round_free(g.round);
	spec_free(g.spec);
	json_decref(g.failure);
	free(g.digest);
	free(g.host_of);
	free(g.rank_taken);
	links_end();
}

static void print_figures(int hosts, uint32_t seed)
{
	printf("{\"seed\":%u,\"hosts\":%d,\"rounds\":%d,\"seconds\":%llu,\"disturbed\":%d,"
	       "\"failures\":%d,\"host_messages\":%.3f,\"host_bytes\":%.0f,\"tries\":%d,"
	       "\"disturbed_messages\":%.3f,\"disturbed_bytes\":%.0f,\"messages\":%ld,"
	       "\"bytes\":%ld,\"again\":%ld,\"beats\":%ld,\"handshakes\":%ld,"
	       "\"events\":%lu}\n",
		seed, hosts, figures.rounds, (unsigned long long)s.now_ms / 1000, figures.disturbed,
		figures.failures, figures.messages, figures.bytes, figures.most_waves,
		figures.disturbed_messages, figures.disturbed_bytes, figures.sent, figures.octets,
		figures.again, figures.beats, figures.handshakes, s.events);
}

static void live(int hosts, int rounds, uint32_t seed)
{
	uint64_t end_ms = (uint64_t)rounds * 60000 + 600000;

	memset(&figures, 0, sizeof(figures));
	group_begins(hosts, seed);
	while (figures.rounds < rounds) {
		simulate_event();
		if (s.now_ms > end_ms)
			wrong("only %d rounds have come to run", figures.rounds);
	}
	if (getenv("SIMULATED_FIGURES"))
		print_figures(hosts, seed);
	group_ends();
}

static int given(const char *name, int without)
{
	const char *text = getenv(name);

	return text ? atoi(text) : without;
}

START_TEST(a_round_costs_each_host_6_messages_and_1_kib)
{
	live(given("SIMULATED_HOSTS", walk_length(160, 96, 32)),
		given("SIMULATED_ROUNDS", walk_length(100, 40, 4)),
		(uint32_t)given("SIMULATED_SEED", 1));
}
END_TEST

START_TEST(a_round_of_few_hosts_costs_4_kib_more_at_most)
{
	for (int i = 0; i < walk_length(40, 20, 2); i++)
		live(3 + i, walk_length(20, 10, 4), 100u + (uint32_t)i);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("simulator");
	TCase *t = tcase_create("rounds");

	tcase_add_test(t, a_round_costs_each_host_6_messages_and_1_kib);
	if (!getenv("SIMULATED_HOSTS"))
		tcase_add_test(t, a_round_of_few_hosts_costs_4_kib_more_at_most);
	suite_add_tcase(suite, t);
	return suite_run(suite);
}
