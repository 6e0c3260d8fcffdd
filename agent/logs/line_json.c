/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/line_json.h"

#include "common/base/printable.h"
#include "common/text/base64.h"
#include "common/text/json.h"

#include <stdlib.h>
#include <string.h>

static json_t *base64_json(const char *data, size_t len)
{
	size_t n = base64_length(len);
	_cleanup_free_ char *out = malloc(n + 1);

	if (!out)
		return NULL;
	base64_encode(data, len, out);
	return json_stringn_nocheck(out, n);
}

/* False when data must be sent as base64. Otherwise *ret_size is its size as a JSON string. */
static bool is_text(const char *data, size_t len, size_t *ret_size)
{
	size_t size = 2;

	for (size_t i = 0; i < len;) {
		unsigned c = (unsigned char)data[i];
		int n;

		if (c >= ' ' && c < 0x7f) {
			size += 1 + (c == '"' || c == '\\');
			i++;
			continue;
		}
		n = printable_utf8(data + i, len - i, &c);
		if (n == 0 || c == 0)
			return false;
		size += c < ' ' ? 6 : (size_t)n;
		i += n;
	}
	*ret_size = size;
	return true;
}

json_t *log_line_json(const struct log_worker_info *worker, int attempt, int std,
	const struct log_line *line, size_t *ret_size)
{
	size_t size;
	bool text = is_text(line->data, line->len, &size);
	json_t *j = json_object();
	int r = 0;

	if (!text)
		size = line->len / 3 * 4 + 6;
	r |= json_put_int(j, "rank", worker->rank);
	r |= json_put(j, "role", json_string(worker->role));
	r |= json_put_int(j, "index", worker->index);
	r |= json_put_int(j, "local_rank", worker->local_rank);
	r |= json_put(j, "stream", json_string(std == 0 ? "stdout" : "stderr"));
	if (text)
		r |= json_put(j, "text", json_stringn_nocheck(line->data, line->len));
	else
		r |= json_put(j, "base64", base64_json(line->data, line->len));
	if (line->time_us >= 0)
		r |= json_put_int(j, "time_us", line->time_us);
	if (line->time_us >= 0 && line->range_us > 0)
		r |= json_put_int(j, "range_us", line->range_us);
	r |= json_put_int(j, "attempt", attempt);
	if (line->partial)
		r |= json_put(j, "partial", json_true());
	if (line->missing) {
		r |= json_put_int(j, "missing_lines", line->missing->lines);
		r |= json_put_int(j, "missing_bytes", line->missing->bytes);
	}
	if (r) {
		json_decref(j);
		return NULL;
	}
	*ret_size = size + 6 * strlen(worker->role) + 300;
	return j;
}
