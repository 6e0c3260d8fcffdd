/* SPDX-License-Identifier: Apache-2.0 */
#include "client/top/list.h"

#include "client/base/ctl.h"
#include "client/top/columns.h"
#include "common/base/memstream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void top_list_init(struct top_list *l, const struct top_column *columns)
{
	*l = (struct top_list){ .columns = columns };
}

static void item_free(struct top_item *item)
{
	free(item->id);
	json_decref(item->object);
	json_decref(item->live);
	free(item);
}

void top_list_clear(struct top_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		item_free(l->items[i]);
	free(l->items);
	free(l->shown);
	free(l->selected);
	l->items = l->shown = NULL;
	l->selected = NULL;
	l->n = l->n_shown = l->at = l->first = 0;
}

struct top_item *top_list_find(const struct top_list *l, const char *id)
{
	for (size_t i = 0; id && i < l->n; i++)
		if (!strcmp(l->items[i]->id, id))
			return l->items[i];
	return NULL;
}

/* Owned; NULL for what is neither a job nor a worker. */
static char *id_of(const json_t *object)
{
	const char *run = get_text(object, "run"), *role = get_text(object, "role");
	char *id;

	if (run)
		return strdup(run);
	if (!role || asprintf(&id, "%s:%" PRId64, role, get_int(object, "index")) < 0)
		return NULL;
	return id;
}

/* The share since the last reading of the same process, or, at first, over its whole life. */
static void item_sample_cpu(
	struct top_item *item, const json_t *used, int64_t process, int64_t life_ms, int64_t now_ms)
{
	int64_t cpu_ms = get_int(used, "cpu_ms"), since_ms = now_ms - item->cpu_at_ms;

	if (!has_value(used, "cpu_ms")) {
		item->cpu = -1;
		item->cpu_at_ms = 0;
		return;
	}
	if (item->cpu_at_ms && item->cpu_of == process && cpu_ms >= item->cpu_ms) {
		if (since_ms <= 0)
			return;
		item->cpu = (double)(cpu_ms - item->cpu_ms) * 100 / (double)since_ms;
	} else {
		item->cpu = life_ms > 0 ? (double)cpu_ms * 100 / (double)life_ms : -1;
	}
	item->cpu_ms = cpu_ms;
	item->cpu_at_ms = now_ms;
	item->cpu_of = process;
}

/* The item of that id, mostly at the same place as before; a new one where there was none. */
static struct top_item *item_update(struct top_list *l, const json_t *object, size_t place)
{
	char *id = id_of(object);
	struct top_item *item = place < l->n ? l->items[place] : NULL;

	if (!item || !id || strcmp(item->id, id) != 0)
		item = id ? top_list_find(l, id) : NULL;
	if (item && item->stays) { /* an agent may name it twice */
		free(id);
		return NULL;
	}
	if (item || !id) {
		free(id);
	} else {
		item = calloc(1, sizeof(*item));
		if (!item) {
			free(id);
			return NULL;
		}
		*item = (struct top_item){
			.id = id, .cpu = -1, .rank = -1, .gpu_bytes = -1, .gpu_percent = -1
		};
	}
	if (!item)
		return NULL;
	json_decref(item->object);
	item->object = json_incref((json_t *)object);
	item->stays = true;
	return item;
}

/* The items of the answer, in its order. Finds the old ones by the list as it was. */
void top_list_take(struct top_list *l, const json_t *array, int64_t now_ms, int64_t now_us)
{
	struct top_item **items = calloc(json_array_size(array) + 1, sizeof(struct top_item *));
	size_t n = 0, i;
	json_t *object;

	if (!items)
		return;
	for (i = 0; i < l->n; i++)
		l->items[i]->stays = false;
	json_array_foreach (array, i, object) {
		struct top_item *item = item_update(l, object, n);

		if (!item)
			continue;
		item->order = n;
		items[n++] = item;
		if (!get_text(object, "run"))
			item_sample_cpu(item, object, get_int(object, "pid"),
				(now_us - get_int(object, "started_us")) / 1000, now_ms);
	}
	for (i = 0; i < l->n; i++)
		if (!l->items[i]->stays)
			item_free(l->items[i]);
	free(l->items);
	l->items = items;
	l->n = n;
	top_list_arrange(l);
}

void top_list_take_live(struct top_list *l, const json_t *job, int64_t now_ms, int64_t now_us)
{
	struct top_item *item = top_list_find(l, get_text(job, "run"));
	const json_t *worker = json_array_get(json_object_get(job, "workers"), 0);

	if (!item)
		return;
	json_decref(item->live);
	item->live = json_incref((json_t *)job);
	item->rank = worker ? (int)get_int(worker, "rank") : -1;
	item_sample_cpu(item, job, get_int(job, "agent_pid"),
		(now_us - get_int(job, "created_us")) / 1000, now_ms);
}

/* --- GPUs --- */

/* A process, or one above it, that holds memory of a GPU. */
struct gpu_use {
	int64_t pid, bytes; /* -1 bytes: not known */
	size_t gpu;	    /* its place in the answer */
};

static int gpu_use_order(const void *a, const void *b)
{
	const struct gpu_use *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* All of them, ordered by pid. Owned. */
static struct gpu_use *gpu_uses(const json_t *gpus, size_t *ret_n)
{
	struct gpu_use *uses = NULL, *grown;
	size_t n = 0, i, j, k;
	json_t *gpu, *process, *pid;

	json_array_foreach (gpus, i, gpu) {
		json_array_foreach (json_object_get(gpu, "processes"), j, process) {
			const json_t *pids = json_object_get(process, "pids");
			int64_t bytes =
				has_value(process, "bytes") ? get_int(process, "bytes") : -1;

			grown = reallocarray(uses, n + json_array_size(pids) + 1, sizeof(*uses));
			if (!grown)
				break;
			uses = grown;
			json_array_foreach (pids, k, pid)
				uses[n++] = (struct gpu_use){ json_integer_value(pid), bytes, i };
		}
	}
	if (n)
		qsort(uses, n, sizeof(*uses), gpu_use_order);
	*ret_n = n;
	return uses;
}

/* The first one of pid, or n. */
static size_t gpu_use_find(const struct gpu_use *uses, size_t n, int64_t pid)
{
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (uses[mid].pid < pid)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void item_gpus(
	struct top_item *item, const json_t *gpus, const struct gpu_use *uses, size_t n)
{
	const char *key = get_text(item->object, "run") ? "agent_pid" : "pid";
	int64_t pid = has_value(item->object, "ended_us") ? 0 : get_int(item->object, key);
	uint64_t seen = 0;
	double busy = 0;
	int known = 0;

	item->gpu_bytes = -1;
	item->gpu_percent = -1;
	for (size_t i = gpu_use_find(uses, n, pid); pid && i < n && uses[i].pid == pid; i++) {
		const json_t *gpu = json_array_get(gpus, uses[i].gpu);

		if (uses[i].bytes >= 0)
			item->gpu_bytes =
				uses[i].bytes + (item->gpu_bytes < 0 ? 0 : item->gpu_bytes);
		if (uses[i].gpu >= 64 || seen & UINT64_C(1) << uses[i].gpu)
			continue;
		seen |= UINT64_C(1) << uses[i].gpu;
		if (has_value(gpu, "percent")) {
			busy += (double)get_int(gpu, "percent");
			known++;
		}
	}
	if (known)
		item->gpu_percent = busy / known;
}

void top_list_take_gpus(struct top_list *l, const json_t *answer)
{
	const json_t *gpus = json_object_get(answer, "gpus");
	size_t n = 0;
	_cleanup_free_ struct gpu_use *uses = gpu_uses(gpus, &n);

	for (size_t i = 0; i < l->n; i++)
		item_gpus(l->items[i], gpus, uses, n);
	top_list_arrange(l);
}

/* --- order --- */

static bool item_matches(const struct top_item *item, const char *filter)
{
	static const char *const keys[] = { "name", "state", "user", "last_line" };

	if (!*filter || strcasestr(item->id, filter))
		return true;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const char *text = get_text(item->object, keys[i]);

		if (text && strcasestr(text, filter))
			return true;
	}
	return false;
}

static int item_order(const struct top_item *a, const struct top_item *b)
{
	return (a->order > b->order) - (a->order < b->order);
}

/* Unknown ones come last, in both directions. */
static int compare_numbers(double a, double b, bool falls)
{
	if (a < 0 || b < 0)
		return (a < 0) - (b < 0);
	return falls ? (a < b) - (a > b) : (a > b) - (a < b);
}

static int item_compare(const void *x, const void *y, void *arg)
{
	const struct top_item *a = *(struct top_item *const *)x;
	const struct top_item *b = *(struct top_item *const *)y;
	const struct top_list *l = arg;
	const struct top_column *column = &l->columns[l->sort];
	int r = 0;

	if (column->number) {
		r = compare_numbers(column->number(a), column->number(b),
			!!(column->flags & TOP_FALLS) != l->backwards);
	} else {
		const char *s = column->text(a), *t = column->text(b);

		r = strverscmp(s ? s : "", t ? t : "");
		r = l->backwards ? -r : r;
	}
	return r ? r : item_order(a, b);
}

void top_list_arrange(struct top_list *l)
{
	size_t i;

	free(l->shown);
	l->shown = calloc(l->n + 1, sizeof(struct top_item *));
	l->n_shown = 0;
	for (i = 0; l->shown && i < l->n; i++)
		if (item_matches(l->items[i], l->filter))
			l->shown[l->n_shown++] = l->items[i];
	if (l->n_shown)
		qsort_r(l->shown, l->n_shown, sizeof(struct top_item *), item_compare, l);
	for (i = 0; i < l->n_shown; i++)
		if (l->selected && !strcmp(l->shown[i]->id, l->selected))
			l->at = i;
	/* If the selected one is gone, its neighbour takes its place. */
	top_list_move(l, 0);
}

void top_list_move(struct top_list *l, long delta)
{
	long to = (long)l->at + delta, last = (long)l->n_shown - 1;

	to = to > last ? last : to;
	l->at = to < 0 ? 0 : (size_t)to;
	free(l->selected);
	l->selected = l->n_shown ? strdup(l->shown[l->at]->id) : NULL;
}

void top_list_scroll(struct top_list *l, size_t rows)
{
	if (l->first + rows > l->n_shown)
		l->first = l->n_shown > rows ? l->n_shown - rows : 0;
	if (l->at < l->first)
		l->first = l->at;
	if (rows && l->at >= l->first + rows)
		l->first = l->at - rows + 1;
}

struct top_item *top_list_selected(const struct top_list *l)
{
	return l->n_shown ? l->shown[l->at] : NULL;
}

/* Whether column is to be seen. */
static bool top_list_has(const struct top_list *l, const struct top_column *column)
{
	bool has = !(column->flags & TOP_RARE);

	for (size_t i = 0; !has && i < l->n; i++)
		has = column->number(l->items[i]) >= 0;
	return has;
}

static int count_columns(const struct top_list *l)
{
	int n = 0;

	while (l->columns[n].title)
		n++;
	return n;
}

void top_list_sort_next(struct top_list *l, int step)
{
	int n = count_columns(l), to = l->sort;

	do
		to = (to + step + n) % n;
	while (!top_list_has(l, &l->columns[to]));
	l->sort = to;
	l->backwards = false;
	top_list_arrange(l);
}

void top_list_sort_column(struct top_list *l, const char *title)
{
	for (int i = 0; l->columns[i].title; i++)
		if (!strcmp(l->columns[i].title, title) && top_list_has(l, &l->columns[i])) {
			l->backwards = false;
			l->sort = i;
		}
	top_list_arrange(l);
}

/* The titles of the columns that are to be seen. Returns their number. */
static int columns_of(const struct top_list *l, struct table_column *columns, const int *seen)
{
	int n = 0;

	for (int i = 0; l->columns[i].title; i++)
		if (seen[i])
			columns[n++] =
				(struct table_column){ l->columns[i].title, l->columns[i].table };
	columns[n] = (struct table_column){ NULL, 0 };
	return n;
}

char *top_list_text(const struct top_list *l, const struct table_style *style)
{
	int n = count_columns(l);
	_cleanup_free_ struct table_column *columns = calloc((size_t)n + 1, sizeof(*columns));
	_cleanup_free_ int *seen = calloc((size_t)n + 1, sizeof(*seen));
	_cleanup_(table_freep) struct table *t = NULL;
	char *text = NULL;
	size_t size;
	FILE *f;

	if (!columns || !seen)
		return NULL;
	for (int i = 0; i < n; i++)
		seen[i] = top_list_has(l, &l->columns[i]);
	columns_of(l, columns, seen);
	t = table_new(columns);
	f = t ? open_memstream(&text, &size) : NULL;
	if (!f)
		return NULL;
	for (size_t i = 0; i < l->n_shown; i++)
		for (int c = 0; c < n; c++)
			if (seen[c])
				top_column_cell(&l->columns[c], t, l->shown[i]);
	table_print(t, f, style);
	return memstream_end(f, &text);
}
