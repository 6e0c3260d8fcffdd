/* SPDX-License-Identifier: Apache-2.0 */
/* What spares workers system calls: rings for their connections, and the store's mirror. */
#include "agent/worker_private.h"
#include "common/json.h"
#include "common/log.h"
#include "common/ring.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* The answer with the ring is on its way, or the call was answered otherwise. */
static int shared(struct worker_peer *peer, struct varlink_call *call, int r)
{
	if (r == -EALREADY || r == -EBUSY)
		return worker_fail(call, STATUS_FAILED_PRECONDITION, "%s",
			r == -EALREADY ? "this connection has a ring already"
				       : "another call of this connection is open");
	if (r < 0 && r != -ECONNRESET)
		return worker_fail(call, STATUS_RESOURCE_EXHAUSTED,
			"there is no memory for a ring: %s", strerror(-r));
	if (r < 0)
		return r;
	peer->ring = true;
	peer->w->slots[peer->slot].rings++;
	return 0;
}

void worker_unshare(struct worker_peer *peer)
{
	if (peer->ring)
		peer->w->slots[peer->slot].rings--;
	peer->ring = false;
}

int worker_share(struct varlink_call *call, json_t *p, void *arg)
{
	struct workers *w = arg;
	struct worker_peer *peer = varlink_call_user(call);
	int64_t version = json_get_int(p, "version", 0);
	_cleanup_close_ int mirror = -1;
	json_t *answer;

	if (version != RING_VERSION)
		return worker_fail(call, STATUS_INVALID_ARGUMENT,
			"version: expected %d, got %" PRId64, RING_VERSION, version);
	/* Who wants no answer gets no ring, which would come with it. */
	if (varlink_call_oneway(call))
		return varlink_reply(call, NULL);
	if (w->slots[peer->slot].rings >= WORKERS_RINGS)
		return worker_fail(call, STATUS_RESOURCE_EXHAUSTED,
			"this task has %d rings already", WORKERS_RINGS);
	mirror = kv_mirror_fd(w->kv);
	if (mirror < 0)
		log_debug("there is no mirror: %s", strerror(-mirror));
	answer = json_object();
	json_put_int(answer, "version", RING_VERSION);
	json_put_int(answer, "ring_bytes", RING_BYTES);
	json_put(answer, "mirror", json_boolean(mirror >= 0));
	return shared(peer, call, varlink_reply_ring(call, answer, mirror < 0 ? -1 : mirror));
}
