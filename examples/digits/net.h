/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The network: 64 pixels, one hidden layer of rectified linear units, a softmax over 10 digits.
 * Its parameters are one flat array of floats, and so is its gradient: that is what ranks add up.
 */

#include "examples/digits/dataset.h"

#define NET_HIDDEN 64

enum {
	NET_W1 = 0, /* [NET_HIDDEN][DATASET_PIXELS] */
	NET_B1 = NET_W1 + NET_HIDDEN * DATASET_PIXELS,
	NET_W2 = NET_B1 + NET_HIDDEN, /* [DATASET_CLASSES][NET_HIDDEN] */
	NET_B2 = NET_W2 + DATASET_CLASSES * NET_HIDDEN,
	NET_PARAMS = NET_B2 + DATASET_CLASSES,
};

struct net {
	float param[NET_PARAMS];
	float momentum[NET_PARAMS];
};

/* Random weights that depend on seed alone; momentum 0. */
void net_init(struct net *n, uint64_t seed);

/* Adds the gradient of one sample's loss to grad, and returns that loss (cross-entropy, nats). */
double net_learn(const struct net *n, const struct sample *s, float *grad);

/* The digit that the network sees; *loss is what net_learn() would return. */
int net_guess(const struct net *n, const struct sample *s, double *loss);

/* One step of gradient descent with momentum and weight decay. scale is applied to grad first. */
void net_step(struct net *n, const float *grad, float scale, float rate);
