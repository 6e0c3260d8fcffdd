/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/budget.h"

#include "common/base/hash_chain.h"

#include <assert.h>
#include <errno.h>

LIST_HEAD(budget_holders, budget_holder);

struct budget_account {
	struct chain_node node; /* first, so that it is the account */
	LIST_ENTRY(budget_account) entry;
	struct budget *budget;
	uint64_t key;
	bool trusted;
	size_t amount;
	uint64_t turn, worked_ms;      /* the time that work for it took in that turn */
	struct budget_holders holders; /* the newest first */
};

struct budget {
	struct budget_limits limits;
	size_t amount, trusted_amount; /* of all, and of those among them that are trusted */
	LIST_HEAD(, budget_account) accounts;
	struct chain by_key; /* the same */
};

int budget_new(const struct budget_limits *limits, struct budget **ret)
{
	struct budget *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->limits = *limits;
	LIST_INIT(&b->accounts);
	*ret = b;
	return 0;
}

struct budget *budget_free(struct budget *b)
{
	assert(!b || LIST_EMPTY(&b->accounts));
	if (b)
		chain_fini(&b->by_key);
	free(b);
	return NULL;
}

void budget_set_limits(struct budget *b, const struct budget_limits *limits)
{
	b->limits = *limits;
}

static struct budget_account *account_of(struct budget *b, uint64_t key, bool trusted)
{
	uint64_t hash = chain_hash(&key, sizeof(key));
	struct chain_node *n = chain_first(&b->by_key, hash);
	struct budget_account *a;

	for (; n; n = chain_next(n)) {
		a = (struct budget_account *)n;
		if (a->key == key && a->trusted == trusted)
			return a;
	}
	a = chain_reserve(&b->by_key) < 0 ? NULL : calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	*a = (struct budget_account){ .budget = b, .key = key, .trusted = trusted };
	LIST_INIT(&a->holders);
	LIST_INSERT_HEAD(&b->accounts, a, entry);
	chain_put(&b->by_key, &a->node, hash);
	return a;
}

int budget_join(struct budget *b, struct budget_holder *h, uint64_t key, bool trusted,
	budget_cut_fn cut, void *arg)
{
	struct budget_account *a = account_of(b, key, trusted);

	if (!a)
		return -ENOMEM;
	*h = (struct budget_holder){ .account = a, .cut = cut, .arg = arg };
	LIST_INSERT_HEAD(&a->holders, h, entry);
	return 0;
}

static void set_amount(struct budget_holder *h, size_t amount)
{
	struct budget_account *a = h->account;
	struct budget *b = a->budget;

	a->amount += amount - h->amount;
	b->amount += amount - h->amount;
	if (a->trusted)
		b->trusted_amount += amount - h->amount;
	h->amount = amount;
}

void budget_leave(struct budget_holder *h)
{
	struct budget_account *a = h->account;

	if (!a)
		return;
	set_amount(h, 0);
	LIST_REMOVE(h, entry);
	h->account = NULL;
	if (!LIST_EMPTY(&a->holders))
		return;
	LIST_REMOVE(a, entry);
	chain_remove(&a->budget->by_key, &a->node);
	free(a);
}

static bool account_fits(const struct budget_account *a, size_t more)
{
	const struct budget *b = a->budget;
	const struct budget_limits *l = &b->limits;

	return b->amount + more <= l->total &&
	       (a->trusted || b->amount - b->trusted_amount + more + l->reserve <= l->total);
}

/* The account of others that holds most, if that is more than a would hold with `more` added; NULL
 * if there is none. Only trusted accounts can make trusted ones give way. */
static struct budget_holder *largest_holder(const struct budget_account *a, size_t more)
{
	struct budget_account *x, *most = NULL;
	struct budget_holder *h, *found = NULL;

	LIST_FOREACH (x, &a->budget->accounts, entry)
		if (x != a && x->amount > a->amount + more && (a->trusted || !x->trusted) &&
			(!most || x->amount > most->amount))
			most = x;
	if (!most)
		return NULL;
	LIST_FOREACH (h, &most->holders, entry)
		if (!found || h->amount > found->amount)
			found = h;
	return found;
}

static int make_room(const struct budget_account *a, size_t more)
{
	struct budget_holder *h;

	if (!a->trusted && a->amount + more > a->budget->limits.share)
		return -EDQUOT;
	while (!account_fits(a, more)) {
		h = largest_holder(a, more);
		if (!h)
			return -ENOBUFS;
		budget_leave(h);
		h->cut(h->arg);
	}
	return 0;
}

int budget_hold(struct budget_holder *h, size_t amount)
{
	int r = 0;

	if (!h->account || amount == h->amount)
		return 0;
	if (amount > h->amount)
		r = make_room(h->account, amount - h->amount);
	if (r == 0)
		set_amount(h, amount);
	return r;
}

size_t budget_limit(const struct budget *b, int error)
{
	return error == -EDQUOT ? b->limits.share : b->limits.total;
}

bool budget_crowded(const struct budget_holder *h)
{
	const struct budget_account *a = h->account;

	if (!a)
		return false;
	return a->budget->amount > a->budget->limits.total / 2 ||
	       (!a->trusted && a->amount > a->budget->limits.share / 2);
}

size_t budget_of_account(const struct budget_holder *h)
{
	return h->account ? h->account->amount : 0;
}

size_t budget_of_all(const struct budget *b)
{
	return b->amount;
}

size_t budget_holders(const struct budget_holder *h)
{
	const struct budget_holder *x;
	size_t n = 0;

	if (h->account)
		LIST_FOREACH (x, &h->account->holders, entry)
			n++;
	return n;
}

bool budget_may_work(const struct budget_holder *h, uint64_t turn, uint64_t most_ms)
{
	const struct budget_account *a = h->account;

	return !a || a->trusted || a->turn != turn || a->worked_ms < most_ms;
}

void budget_worked(struct budget_holder *h, uint64_t turn, uint64_t ms)
{
	struct budget_account *a = h->account;

	if (!a)
		return;
	if (a->turn != turn)
		a->worked_ms = 0;
	a->turn = turn;
	a->worked_ms += ms;
}
