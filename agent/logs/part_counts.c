/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/part_counts.h"

#include "agent/files/file_system.h"
#include "agent/logs/parts.h"

#include <endian.h>
#include <string.h>

struct part_record {
	uint64_t number, lines, bytes;
};

void log_part_counts_add(const char *path, int number, int64_t lines, int64_t bytes)
{
	const struct part_record record = { htole64(number), htole64(lines), htole64(bytes) };
	char name[PATH_MAX];

	if (log_parts_beside(path, "parts", 0, name))
		log_fs_append(name, &record, sizeof(record), 0640);
}

struct log_missing log_part_counts_missing(const char *path, int after, int before)
{
	struct log_missing m = { .parts = before - after - 1 };
	_cleanup_free_ char *data = NULL;
	char name[PATH_MAX];
	size_t len = 0;

	m.unknown = m.parts;
	if (m.parts <= 0 || !log_parts_beside(path, "parts", 0, name) ||
		log_fs_read(name, 0, &data, &len) < 0)
		return m;
	for (size_t at = 0; at + sizeof(struct part_record) <= len;
		at += sizeof(struct part_record)) {
		struct part_record r;
		int64_t number;

		memcpy(&r, data + at, sizeof(r));
		number = (int64_t)le64toh(r.number);
		if (number <= after || number >= before || m.unknown == 0)
			continue;
		m.unknown--;
		m.lines += (int64_t)le64toh(r.lines);
		m.bytes += (int64_t)le64toh(r.bytes);
	}
	return m;
}
