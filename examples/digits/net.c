/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/digits/net.h"

#include "examples/digits/random.h"

#include <math.h>
#include <string.h>

#define MOMENTUM 0.9f
#define DECAY 1e-4f

struct activation {
	float hidden[NET_HIDDEN];
	float chance[DATASET_CLASSES]; /* sums up to 1 */
};

void net_init(struct net *n, uint64_t seed)
{
	struct random r = { seed };
	/* He's initialisation keeps the variance of the signal through rectified units. */
	double s1 = sqrt(2.0 / DATASET_PIXELS), s2 = sqrt(2.0 / NET_HIDDEN);

	memset(n, 0, sizeof(*n));
	for (int i = NET_W1; i < NET_B1; i++)
		n->param[i] = (float)(s1 * random_normal(&r));
	for (int i = NET_W2; i < NET_B2; i++)
		n->param[i] = (float)(s2 * random_normal(&r));
}

static double forward(const struct net *n, const struct sample *s, struct activation *a)
{
	float score[DATASET_CLASSES], top = -INFINITY, sum = 0;

	for (int h = 0; h < NET_HIDDEN; h++) {
		const float *w = &n->param[NET_W1 + h * DATASET_PIXELS];
		float v = n->param[NET_B1 + h];

		for (int i = 0; i < DATASET_PIXELS; i++)
			v += w[i] * s->pixel[i];
		a->hidden[h] = v > 0 ? v : 0;
	}
	for (int c = 0; c < DATASET_CLASSES; c++) {
		const float *w = &n->param[NET_W2 + c * NET_HIDDEN];

		score[c] = n->param[NET_B2 + c];
		for (int h = 0; h < NET_HIDDEN; h++)
			score[c] += w[h] * a->hidden[h];
		top = fmaxf(top, score[c]);
	}
	/* Less the largest score, so that expf() cannot overflow. */
	for (int c = 0; c < DATASET_CLASSES; c++)
		sum += a->chance[c] = expf(score[c] - top);
	for (int c = 0; c < DATASET_CLASSES; c++)
		a->chance[c] /= sum;
	return (double)(logf(sum) + top - score[s->label]);
}

double net_learn(const struct net *n, const struct sample *s, float *grad)
{
	struct activation a;
	double loss = forward(n, s, &a);
	float back[NET_HIDDEN] = { 0 };

	for (int c = 0; c < DATASET_CLASSES; c++) {
		float d = a.chance[c] - (c == s->label ? 1.0f : 0.0f);
		const float *w = &n->param[NET_W2 + c * NET_HIDDEN];
		float *g = &grad[NET_W2 + c * NET_HIDDEN];

		grad[NET_B2 + c] += d;
		for (int h = 0; h < NET_HIDDEN; h++) {
			g[h] += d * a.hidden[h];
			back[h] += d * w[h];
		}
	}
	for (int h = 0; h < NET_HIDDEN; h++) {
		float *g = &grad[NET_W1 + h * DATASET_PIXELS];

		if (a.hidden[h] <= 0)
			continue;
		grad[NET_B1 + h] += back[h];
		for (int i = 0; i < DATASET_PIXELS; i++)
			g[i] += back[h] * s->pixel[i];
	}
	return loss;
}

int net_guess(const struct net *n, const struct sample *s, double *loss)
{
	struct activation a;
	int best = 0;

	*loss = forward(n, s, &a);
	for (int c = 1; c < DATASET_CLASSES; c++)
		if (a.chance[c] > a.chance[best])
			best = c;
	return best;
}

void net_step(struct net *n, const float *grad, float scale, float rate)
{
	for (int i = 0; i < NET_PARAMS; i++) {
		float g = grad[i] * scale + DECAY * n->param[i];

		n->momentum[i] = MOMENTUM * n->momentum[i] + g;
		n->param[i] -= rate * n->momentum[i];
	}
}
