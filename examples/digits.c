/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digits: trains a small network on images of handwritten digits, on as many workers as there are.
 *
 * Data-parallel training as the large frameworks do it, with nothing else than C and TCP. Every
 * worker has a copy of the network; of each batch it takes every WORLD_SIZE-th image, the workers
 * add up their gradients around a ring, and all take the same step. After each epoch rank 0 writes
 * a checkpoint, from which the next attempt goes on: so a group that loses a worker has
 * lost no more than an epoch once its supervisor has restarted it. Where the machine is to be taken
 * away it loses nothing: each step begins with elasticd_checkpoint(), which has all workers save
 * before the same step and leave.
 *
 * It needs what every launcher gives: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Without them
 * it is a group of one. Where the launcher is not elasticd nothing is ever taken away.
 */
#include "examples/digits/checkpoint.h"
#include "examples/digits/crash.h"
#include "examples/digits/dataset.h"
#include "examples/digits/distort.h"
#include "examples/digits/fail.h"
#include "examples/digits/net.h"
#include "examples/digits/ring.h"
#include "worker/elasticd.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DATA "examples/data/digits.csv"

struct options {
	const char *data, *checkpoint;
	int epochs, batch, seed, timeout_s, slow_ms;
	double rate, target; /* target in percent */
	struct crash crash;
};

struct worker {
	struct options o;
	int rank, world;
	struct ring ring;
	struct dataset data;
	struct net net;
	uint32_t *order;
	struct elasticd *job;
	struct checkpoint at;
};

struct score {
	double loss, accuracy; /* mean, and 0..1 */
};

static const char usage[] =
	"usage: digits [OPTION...]\n"
	"  --data FILE         images (default " DATA ", else beside the program)\n"
	"  --checkpoint FILE   resume from FILE if it is there; save to it after each epoch, and\n"
	"                      where the machine is to be taken away\n"
	"  --epochs N          (30)\n"
	"  --batch N           images per step, of all workers together (32)\n"
	"  --lr RATE           at the beginning; it falls to 0 towards the end (0.1)\n"
	"  --seed N            (1)\n"
	"  --target PERCENT    fail when fewer of the held-out images are recognised in the end\n"
	"  --timeout SECONDS   for every wait for another worker (30)\n"
	"  --slow MS           wait this long after each epoch, for watching\n"
	"  --crash-rank R --crash-epoch E\n"
	"                      rank R fails in epoch E, in its first attempt only\n"
	"  --crash HOW         exit (default, with status 17), abort or segv\n"
	"Reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT from the environment.\n";

_Noreturn static void fail_usage(const char *what, const char *word)
{
	fprintf(stderr, "digits: %s: %s\n%s", what, word, usage);
	exit(2);
}

static int parse_int(const char *word, const char *what, int min)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(word, &end, 10);
	if (end == word || *end || errno != 0 || v < min || v > 1000000000)
		fail_usage(what, word);
	return (int)v;
}

static double parse_real(const char *word, const char *what)
{
	char *end;
	double v = strtod(word, &end);

	if (end == word || *end || !isfinite(v) || v < 0)
		fail_usage(what, word);
	return v;
}

static void parse_options(struct options *o, int argc, char **argv)
{
	static const struct option known[] = { { "data", 1, NULL, 'd' },
		{ "checkpoint", 1, NULL, 'c' }, { "epochs", 1, NULL, 'e' },
		{ "batch", 1, NULL, 'b' }, { "lr", 1, NULL, 'l' }, { "seed", 1, NULL, 's' },
		{ "target", 1, NULL, 't' }, { "timeout", 1, NULL, 'w' }, { "slow", 1, NULL, 'p' },
		{ "crash-rank", 1, NULL, 'R' }, { "crash-epoch", 1, NULL, 'E' },
		{ "crash", 1, NULL, 'H' }, { "help", 0, NULL, 'h' }, { 0 } };

	*o = (struct options){ .epochs = 30,
		.batch = 32,
		.seed = 1,
		.timeout_s = 30,
		.rate = 0.1,
		.crash = { .rank = -1, .epoch = -1 } };
	for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;)
		switch (c) {
		case 'd':
			o->data = optarg;
			break;
		case 'c':
			o->checkpoint = optarg;
			break;
		case 'e':
			o->epochs = parse_int(optarg, "--epochs", 1);
			break;
		case 'b':
			o->batch = parse_int(optarg, "--batch", 1);
			break;
		case 'l':
			o->rate = parse_real(optarg, "--lr");
			break;
		case 's':
			o->seed = parse_int(optarg, "--seed", 0);
			break;
		case 't':
			o->target = parse_real(optarg, "--target");
			break;
		case 'w':
			o->timeout_s = parse_int(optarg, "--timeout", 1);
			break;
		case 'p':
			o->slow_ms = parse_int(optarg, "--slow", 0);
			break;
		case 'R':
			o->crash.rank = parse_int(optarg, "--crash-rank", 0);
			break;
		case 'E':
			o->crash.epoch = parse_int(optarg, "--crash-epoch", 1);
			break;
		case 'H':
			if (!crash_parse_how(optarg, &o->crash))
				fail_usage("--crash", optarg);
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
		}
	if (optind < argc)
		fail_usage("unexpected argument", argv[optind]);
	if ((o->crash.rank >= 0) != (o->crash.epoch >= 0))
		fail_usage("--crash-rank and --crash-epoch", "one without the other");
}

static const char *need_env(const char *name)
{
	const char *v = getenv(name);

	if (!v || !*v)
		fail("%s is not set: a launcher sets it for each worker", name);
	return v;
}

/* The images: as given, else below the current directory, else where the program was built. */
static void load_data(struct worker *w)
{
	char path[4096];
	ssize_t n;

	if (w->o.data || access(DATA, R_OK) == 0) {
		dataset_load(&w->data, w->o.data ? w->o.data : DATA);
		return;
	}
	n = readlink("/proc/self/exe", path, sizeof(path) - sizeof("/../../../" DATA));
	if (n < 0)
		fail("cannot read %s", DATA);
	path[n] = '\0';
	/* Of .../build/examples/digits keep what is before build. */
	for (int i = 0; i < 3 && strrchr(path, '/'); i++)
		*strrchr(path, '/') = '\0';
	strcat(path, "/" DATA);
	dataset_load(&w->data, path);
}

static void open_worker(struct worker *w)
{
	const char *addr = "", *port = "";

	w->rank = getenv("RANK") ? parse_int(need_env("RANK"), "RANK", 0) : 0;
	w->world = getenv("WORLD_SIZE") ? parse_int(need_env("WORLD_SIZE"), "WORLD_SIZE", 1) : 1;
	if (w->rank >= w->world)
		fail("RANK is %d, expected less than WORLD_SIZE, which is %d", w->rank, w->world);
	fail_set_rank(w->rank);
	if (w->world > 1) {
		addr = need_env("MASTER_ADDR");
		port = need_env("MASTER_PORT");
	}
	if (elasticd_open(&w->job))
		fail("%s", elasticd_error_text());
	load_data(w);
	w->order = calloc(w->data.n_train, sizeof(*w->order));
	if (!w->order)
		fail("no memory for the order of the images");
	ring_open(&w->ring, w->rank, w->world, addr, port, w->o.timeout_s * 1000);
}

static void close_worker(struct worker *w)
{
	ring_close(&w->ring);
	dataset_fini(&w->data);
	elasticd_close(w->job);
	free(w->order);
}

/* The number of rank 0, on all ranks: the others add nothing. Floats hold 16 bits exactly. */
static uint64_t number_of_rank_0(struct worker *w, uint64_t n)
{
	float parts[4] = { 0 };
	uint64_t r = 0;

	for (int i = 0; i < 4 && w->rank == 0; i++)
		parts[i] = (float)(n >> 16 * i & 0xffff);
	ring_sum(&w->ring, parts, 4);
	for (int i = 0; i < 4; i++)
		r |= (uint64_t)parts[i] << 16 * i;
	return r;
}

/* Rank 0 alone reads the checkpoint, as the hosts of a group need not share a file system. The
 * others get it over the ring, where they have nothing but zeros to add. */
static void resume(struct worker *w)
{
	w->at = (struct checkpoint){ .seed = (uint64_t)w->o.seed, .batch = (uint64_t)w->o.batch };
	net_init(&w->net, w->at.seed);
	if (!w->o.checkpoint)
		return;
	if (w->rank == 0 && checkpoint_load(w->o.checkpoint, &w->at, &w->net))
		printf("resumed at step %llu\n", (unsigned long long)w->at.step);
	w->at.step = number_of_rank_0(w, w->at.step);
	if (w->at.step == 0)
		return;
	if (w->rank != 0) {
		w->at.trained = w->at.step;
		memset(&w->net, 0, sizeof(w->net));
	}
	ring_sum(&w->ring, w->net.param, NET_PARAMS);
	ring_sum(&w->ring, w->net.momentum, NET_PARAMS);
}

/* The networks of all ranks are the same: one of them saves. */
static void save(struct worker *w)
{
	if (w->rank == 0 && w->o.checkpoint)
		checkpoint_save(w->o.checkpoint, &w->at, &w->net);
}

/* An elasticd_save_fn. */
static int save_before(void *arg, int64_t step, char *path, size_t path_size)
{
	struct worker *w = arg;

	save(w);
	if (w->rank == 0 && w->o.checkpoint) {
		printf("saved before step %lld\n", (long long)step);
		snprintf(path, path_size, "%s", w->o.checkpoint);
	}
	return 0;
}

/* Tells where this worker is, and saves and leaves here where it is asked to. */
static void begin_step(struct worker *w)
{
	if (elasticd_checkpoint(w->job, (int64_t)w->at.step, save_before, NULL, w, NULL))
		fail("step %llu: %s", (unsigned long long)w->at.step, elasticd_error_text());
}

/* The rate falls from its whole value to 0 along half a cosine. */
static float rate_at(const struct options *o, int epoch)
{
	return (float)(o->rate * 0.5 * (1 + cos(M_PI * (epoch - 1) / o->epochs)));
}

/* A seed for image i of an epoch, so that its variant does not depend on which rank has it. */
static uint64_t image_seed(const struct worker *w, int epoch, size_t i)
{
	return ((uint64_t)w->o.seed << 48) + ((uint64_t)epoch << 24) + i;
}

static uint64_t steps_of_epoch(const struct worker *w)
{
	return (w->data.n_train + w->at.batch - 1) / w->at.batch;
}

/* The steps of an epoch from w->at on: all of them, but where a run goes on with another's work. */
static void train_epoch(struct worker *w, int epoch)
{
	static float grad[NET_PARAMS];
	size_t n = w->data.n_train, batch = w->at.batch;
	struct sample variant;

	dataset_shuffle(w->order, n, image_seed(w, epoch, n));
	for (size_t start = w->at.step % steps_of_epoch(w) * batch; start < n; start += batch) {
		size_t end = start + batch < n ? start + batch : n;

		begin_step(w);
		memset(grad, 0, sizeof(grad));
		for (size_t i = start + (size_t)w->rank; i < end; i += (size_t)w->world) {
			uint32_t k = w->order[i];

			distort(&w->data.samples[k], &variant, image_seed(w, epoch, k));
			net_learn(&w->net, &variant, grad);
		}
		/* In the middle of an epoch, while the others wait for this one's gradient. */
		if (start <= n / 2 && n / 2 < end)
			crash_if_due(&w->o.crash, w->rank, epoch);
		ring_sum(&w->ring, grad, NET_PARAMS);
		net_step(&w->net, grad, 1.0f / (float)(end - start), rate_at(&w->o, epoch));
		w->at.step++;
		w->at.trained++;
	}
}

/* A small number that differs when the parameters do. */
static float fingerprint(const struct net *n)
{
	uint32_t h = 2166136261u, bits;

	for (int i = 0; i < NET_PARAMS; i++) {
		memcpy(&bits, &n->param[i], sizeof(bits));
		h = (h ^ bits) * 16777619u;
	}
	return (float)(h >> 22);
}

/* The held-out images, each looked at by one of the workers. */
static struct score evaluate(struct worker *w)
{
	float mine = fingerprint(&w->net);
	float sum[3] = { 0, 0, mine };
	size_t n = w->data.n - w->data.n_train;

	for (size_t i = w->data.n_train + (size_t)w->rank; i < w->data.n; i += (size_t)w->world) {
		double loss;

		sum[1] +=
			net_guess(&w->net, &w->data.samples[i], &loss) == w->data.samples[i].label;
		sum[0] += (float)loss;
	}
	ring_sum(&w->ring, sum, 3);
	/* Whole numbers this small add up exactly. */
	if (sum[2] != mine * (float)w->world)
		fail("the workers' networks have come apart");
	return (struct score){ sum[0] / (float)n, sum[1] / (float)n };
}

static struct score train(struct worker *w)
{
	struct score s = evaluate(w);

	for (int epoch = (int)(w->at.step / steps_of_epoch(w)) + 1; epoch <= w->o.epochs; epoch++) {
		train_epoch(w, epoch);
		s = evaluate(w);
		save(w);
		if (w->rank == 0)
			printf("epoch %2d/%d  loss %.4f  held-out accuracy %.1f %%\n", epoch,
				w->o.epochs, s.loss, 100 * s.accuracy);
		if (w->o.slow_ms)
			nanosleep(&(struct timespec){ w->o.slow_ms / 1000,
					  (long)(w->o.slow_ms % 1000) * 1000000 },
				NULL);
	}
	return s;
}

int main(int argc, char **argv)
{
	static struct worker w;
	struct score s;

	/* Whole lines also into a file or pipe. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	parse_options(&w.o, argc, argv);
	open_worker(&w);
	printf("rank %d of %d: pid %d, %zu images to train on, %d held out\n", w.rank, w.world,
		(int)getpid(), w.data.n_train, DATASET_HELD_OUT);
	resume(&w);
	s = train(&w);
	if (w.at.trained != w.at.step)
		fail("%llu steps were trained, expected %llu", (unsigned long long)w.at.trained,
			(unsigned long long)w.at.step);
	if (w.rank == 0)
		printf("done: %.1f %% of the held-out images recognised, %llu steps trained\n",
			100 * s.accuracy, (unsigned long long)w.at.step);
	close_worker(&w);
	if (100 * s.accuracy < w.o.target)
		fail("%.1f %% is less than the target of %.1f %%", 100 * s.accuracy, w.o.target);
	return 0;
}
