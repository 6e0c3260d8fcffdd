/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/rounds/host_ranks.h"

#include "agent/rounds/natural.h"
#include "common/text/ranks.h"
#include "tests/unit/child.h"
#include "tests/unit/random.h"
#include "tests/unit/run.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8, ROLES = 3, LARGE = 16384 };

static const bool everywhere[ROLES] = { false };
static const struct ranked_roles one_role = { 1, everywhere };
static const int one_worker[ROLES] = { 1 };

static struct ranked_host hosts[MOST];
static int indexes[MOST][ROLES], world_roles[ROLES];
static struct ranked_world world = { .roles = world_roles };
static int n_hosts;

static void begin(void)
{
	n_hosts = 0;
}

static void host(const char *name, int node_rank, int last_rank)
{
	hosts[n_hosts] = (struct ranked_host){ .name = name,
		.boot = "b",
		.node_rank = node_rank,
		.last_rank = last_rank,
		.replicas = one_worker,
		.first_index = indexes[n_hosts] };
	n_hosts++;
}

static int assign(const struct ranked_roles *roles, struct error *err)
{
	_cleanup_free_ void *space = malloc(host_ranks_space_bytes(n_hosts));

	ck_assert_ptr_nonnull(space);
	return host_ranks_assign(hosts, n_hosts, roles, space, &world, err);
}

/* The names in the order of their group ranks. */
static const char *order(void)
{
	static char text[512];
	size_t n = 0;

	ck_assert_int_eq(assign(&one_role, NULL), 0);
	text[0] = '\0';
	for (int rank = 0; rank < n_hosts; rank++)
		for (int i = 0; i < n_hosts; i++)
			if (hosts[i].group_rank == rank)
				n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s",
					n ? " " : "", hosts[i].name);
	return text;
}

START_TEST(first_ranks_follow_the_natural_order_of_names)
{
	begin();
	host("node10", -1, -1);
	host("node2", -1, -1);
	host("head", -1, -1);
	host("node1", -1, -1);
	ck_assert_str_eq(order(), "head node1 node2 node10");
}
END_TEST

START_TEST(hosts_of_one_name_have_a_fixed_order)
{
	begin();
	host("localhost", -1, -1);
	host("localhost", -1, -1);
	hosts[0].boot = "c2";
	hosts[1].boot = "c1";
	order();
	ck_assert_int_eq(hosts[0].group_rank, 1);
	ck_assert_int_eq(hosts[1].group_rank, 0);
}
END_TEST

START_TEST(node_ranks_are_group_ranks)
{
	begin();
	host("a", 2, -1);
	host("b", 0, -1);
	host("c", 1, -1);
	ck_assert_str_eq(order(), "b c a");
	/* whatever they were in the last round */
	begin();
	host("a", 2, 1);
	host("b", 0, 0);
	host("c", 1, -1);
	ck_assert_str_eq(order(), "b c a");
}
END_TEST

START_TEST(missing_node_ranks_leave_no_gap)
{
	begin();
	host("a", 7, -1);
	host("b", 0, -1);
	host("c", 5, -1);
	ck_assert_str_eq(order(), "b c a");
}
END_TEST

START_TEST(hosts_without_node_ranks_fill_the_ranks_between)
{
	begin();
	host("z", 0, -1);
	host("b", -1, -1);
	host("y", 2, -1);
	host("a", -1, -1);
	ck_assert_str_eq(order(), "z a y b");
	begin();
	host("z", 9, -1);
	host("b", -1, 0);
	host("y", 0, -1);
	ck_assert_str_eq(order(), "y b z");
}
END_TEST

START_TEST(two_hosts_with_one_node_rank_are_both_named)
{
	struct error err = { 0 };

	begin();
	host("node7", 3, -1);
	host("node2", 1, -1);
	host("node5", 3, -1);
	ck_assert_int_eq(assign(&one_role, &err), -EINVAL);
	ck_assert_str_eq(
		err.text, "node rank 3: expected one host to have it, but node5 and node7 do");
}
END_TEST

START_TEST(the_same_size_keeps_every_rank_and_a_newcomer_gets_the_vacant_one)
{
	begin();
	host("d", -1, 0);
	host("a", -1, -1);
	host("b", -1, 2);
	host("c", -1, 3);
	ck_assert_str_eq(order(), "d a b c");
}
END_TEST

START_TEST(a_smaller_group_closes_gaps_in_order)
{
	begin();
	host("d", -1, 0);
	host("b", -1, 3);
	host("c", -1, 2);
	ck_assert_str_eq(order(), "d c b");
	begin();
	host("d", -1, 0);
	host("b", -1, 3);
	host("new", -1, -1);
	ck_assert_str_eq(order(), "d new b");
	begin();
	host("d", -1, 6);
	ck_assert_str_eq(order(), "d");
}
END_TEST

START_TEST(a_larger_group_keeps_every_rank)
{
	begin();
	host("d", -1, 0);
	host("new10", -1, -1);
	host("new9", -1, -1);
	host("c", -1, 2);
	host("b", -1, 1);
	ck_assert_str_eq(order(), "d b c new9 new10");
}
END_TEST

START_TEST(roles_are_contiguous_on_each_host_and_count_over_hosts)
{
	static const bool first_only[ROLES] = { true, false, false };
	static const struct ranked_roles roles = { ROLES, first_only };
	static const int a[] = { 1, 2, 0 }, b[] = { 1, 3, 2 }, c[] = { 1, 0, 1 };

	begin();
	host("c", -1, -1);
	host("a", -1, -1);
	host("b", -1, -1);
	hosts[0].replicas = c;
	hosts[1].replicas = a;
	hosts[2].replicas = b;
	ck_assert_int_eq(assign(&roles, NULL), 0);
	ck_assert_int_eq(world.hosts, 3);
	ck_assert_int_eq(world.workers, 9);
	ck_assert_int_eq(world_roles[0], 1);
	ck_assert_int_eq(world_roles[1], 5);
	ck_assert_int_eq(world_roles[2], 3);
	/* a: the leader and two; b: three and two; c: one */
	ck_assert_int_eq(hosts[1].first_rank, 0);
	ck_assert_int_eq(hosts[1].workers, 3);
	ck_assert_int_eq(hosts[2].first_rank, 3);
	ck_assert_int_eq(hosts[2].workers, 5);
	ck_assert_int_eq(hosts[0].first_rank, 8);
	ck_assert_int_eq(hosts[0].workers, 1);
	ck_assert_int_eq(indexes[2][1], 2);
	ck_assert_int_eq(indexes[2][2], 0);
	ck_assert_int_eq(indexes[0][2], 2);
	ck_assert_int_eq(host_ranks_replicas(&hosts[2], &roles, 0, 1), 0);
	ck_assert_int_eq(host_ranks_replicas(&hosts[1], &roles, 0, 0), 1);
}
END_TEST

START_TEST(more_workers_than_ranks_are_refused)
{
	static const int half[] = { RANKS_MAX / 2 }, more[] = { RANKS_MAX / 2 + 1 };
	struct error err = { 0 };

	begin();
	host("a", -1, -1);
	host("b", -1, -1);
	hosts[0].replicas = hosts[1].replicas = half;
	ck_assert_int_eq(assign(&one_role, &err), 0);
	ck_assert_int_eq(world.workers, RANKS_MAX);
	hosts[1].replicas = more;
	ck_assert_int_eq(assign(&one_role, &err), -ERANGE);
	ck_assert_str_eq(err.text, "expected at most 1048576 workers on all hosts");
}
END_TEST

/* a and b stand in the order that is theirs. */
static void check_pair(const struct ranked_host *a, const struct ranked_host *b)
{
	if (a->group_rank == b->group_rank)
		ck_abort_msg("two hosts have group rank %d", a->group_rank);
	if (a->node_rank >= 0 && a->node_rank < b->node_rank && a->group_rank > b->group_rank)
		ck_abort_msg("node rank %d stands behind %d", a->node_rank, b->node_rank);
	if (a->node_rank >= 0 || b->node_rank >= 0)
		return;
	if (a->last_rank >= 0 && a->last_rank < b->last_rank && a->group_rank > b->group_rank)
		ck_abort_msg("last rank %d stands behind %d", a->last_rank, b->last_rank);
	if (a->last_rank < 0 && b->last_rank < 0 && natural_compare(a->name, b->name) < 0 &&
		a->group_rank > b->group_rank)
		ck_abort_msg("newcomer %s stands behind %s", a->name, b->name);
}

static void check_hosts(int largest)
{
	int rank = 0;

	for (int i = 0; i < n_hosts; i++) {
		if (hosts[i].group_rank < 0 || hosts[i].group_rank >= n_hosts)
			ck_abort_msg("group rank %d of %d", hosts[i].group_rank, n_hosts);
		for (int k = 0; k < n_hosts; k++)
			if (i != k)
				check_pair(&hosts[i], &hosts[k]);
		if (hosts[i].node_rank < 0 && hosts[i].last_rank >= 0 && largest < n_hosts &&
			hosts[i].group_rank != hosts[i].last_rank)
			ck_abort_msg("%d became %d although there is room", hosts[i].last_rank,
				hosts[i].group_rank);
	}
	for (; rank < n_hosts; rank++)
		for (int i = 0; i < n_hosts; i++)
			if (hosts[i].group_rank == rank && hosts[i].first_rank != rank)
				ck_abort_msg("global rank %d at group rank %d", hosts[i].first_rank,
					rank);
}

/* Each host is new, or had any of five ranks; the first two also have node ranks in their turn. */
START_TEST(every_small_group_has_its_ranks_without_a_gap_and_in_order)
{
	static const char *const names[] = { "n10", "n9", "n1", "n02" };
	enum { LAST = 6, ALL = LAST * LAST * LAST * LAST };

	for (int i = 0; i < ALL * 9; i++) {
		int rest = i % ALL, node = i / ALL, largest = 0;
		bool alike = false;

		begin();
		for (int k = 0; k < 4; k++, rest /= LAST)
			host(names[k], -1, rest % LAST - 1);
		for (int k = 0; k < 4; k++)
			for (int j = 0; j < k; j++)
				alike |= hosts[k].last_rank >= 0 &&
					 hosts[k].last_rank == hosts[j].last_rank;
		if (alike)
			continue;
		hosts[0].node_rank = node % 3 ? node % 3 * 2 : -1;
		hosts[1].node_rank = node / 3 ? node / 3 * 2 - 1 : -1;
		for (int k = 0; k < 4; k++)
			if (hosts[k].last_rank > largest)
				largest = hosts[k].last_rank;
		if (hosts[0].node_rank >= 0 || hosts[1].node_rank >= 0)
			largest = n_hosts; /* their ranks go first */
		if (assign(&one_role, NULL) < 0)
			ck_abort_msg("refused");
		check_hosts(largest);
	}
}
END_TEST

START_TEST(sixteen_thousand_hosts_are_ranked_at_once)
{
	int n = under_valgrind() ? 512 : LARGE;
	struct ranked_host *many = calloc((size_t)n, sizeof(*many));
	char(*names)[16] = calloc((size_t)n, sizeof(*names));
	int *index = calloc((size_t)n, sizeof(int));
	void *space = malloc(host_ranks_space_bytes(n));
	uint32_t seed = 5;

	ck_assert(many && names && index && space);
	for (int i = 0; i < n; i++) {
		snprintf(names[i], sizeof(names[i]), "node%d", (int)(next_random(&seed)));
		many[i] = (struct ranked_host){ .name = names[i],
			.boot = names[i],
			.node_rank = i % 7 ? -1 : i,
			.last_rank = i % 3 ? i : -1,
			.replicas = one_worker,
			.first_index = &index[i] };
	}
	ck_assert_int_eq(host_ranks_assign(many, n, &one_role, space, &world, NULL), 0);
	ck_assert_int_eq(world.workers, n);
	for (int i = 0; i < n; i++)
		if (many[i].node_rank >= 0 && many[i].group_rank != many[i].node_rank)
			ck_abort_msg("node rank %d", many[i].node_rank);
	free(many);
	free(names);
	free(index);
	free(space);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("host_ranks");
	TCase *t = tcase_create("host_ranks");

	tcase_add_test(t, first_ranks_follow_the_natural_order_of_names);
	tcase_add_test(t, hosts_of_one_name_have_a_fixed_order);
	tcase_add_test(t, node_ranks_are_group_ranks);
	tcase_add_test(t, missing_node_ranks_leave_no_gap);
	tcase_add_test(t, hosts_without_node_ranks_fill_the_ranks_between);
	tcase_add_test(t, two_hosts_with_one_node_rank_are_both_named);
	tcase_add_test(t, the_same_size_keeps_every_rank_and_a_newcomer_gets_the_vacant_one);
	tcase_add_test(t, a_smaller_group_closes_gaps_in_order);
	tcase_add_test(t, a_larger_group_keeps_every_rank);
	tcase_add_test(t, roles_are_contiguous_on_each_host_and_count_over_hosts);
	tcase_add_test(t, more_workers_than_ranks_are_refused);
	tcase_add_test(t, every_small_group_has_its_ranks_without_a_gap_and_in_order);
	tcase_add_test(t, sixteen_thousand_hosts_are_ranked_at_once);
	suite_add_tcase(s, t);
	return suite_run(s);
}
