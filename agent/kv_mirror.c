/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mirror shows what the stream of changes tells and what reads are answered. It is as young as
 * the newest revision that anybody was told: who has an answer of that revision, or has heard of it
 * from somebody else, finds nothing older. Where an answer is ahead of the stream, which other keys
 * have changed by then is not known, so that all is dropped; likewise where an answer does not say
 * how old it is. Without the stream nothing is shown.
 */
#include "agent/kv_private.h"

int kv_mirror_fd(struct kv *kv)
{
	int r;

	if (!kv->mirror) {
		r = key_mirror_new(&kv->mirror);
		if (r < 0)
			return r;
		key_mirror_forget_all(kv->mirror, kv->known);
	}
	return key_mirror_fd(kv->mirror);
}

void kv_mirror_forget(struct kv *kv, int64_t revision)
{
	kv->mirror_since = revision;
	if (kv->mirror)
		key_mirror_forget_all(kv->mirror, revision);
}

void kv_mirror_answered(struct kv *kv, const struct store_answer *answer)
{
	kv->mirror_blind = answer->revision == 0;
	if (kv->mirror_blind)
		kv_mirror_forget(kv, kv->known);
	else if (answer->revision > kv->seen && answer->revision > kv->mirror_since)
		kv_mirror_forget(kv, answer->revision);
}

void kv_mirror_show(struct kv *kv, const struct store_entry *entry, int64_t revision)
{
	if (!kv->mirror)
		return;
	if (entry->value && kv->stream && !kv->mirror_blind)
		key_mirror_show(kv->mirror, entry->key, entry->value, entry->len, revision);
	else
		key_mirror_forget(kv->mirror, entry->key, revision);
}
