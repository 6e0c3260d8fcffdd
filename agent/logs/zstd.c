/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/zstd.h"

#include "agent/files/file_system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>

#if HAVE_ZSTD
#include "common/base/file.h"

#include <zstd.h>

#define LEVEL 3

static int compress_block(ZSTD_CCtx *ctx, int fd, const char *data, size_t len, bool last)
{
	char out[32768];
	ZSTD_inBuffer in = { data, len, 0 };
	size_t left;

	do {
		ZSTD_outBuffer o = { out, sizeof(out), 0 };
		int r;

		left = ZSTD_compressStream2(ctx, &o, &in, last ? ZSTD_e_end : ZSTD_e_continue);
		if (ZSTD_isError(left))
			return -EIO;
		r = file_write_all(fd, out, o.pos);
		if (r < 0)
			return r;
	} while (last ? left > 0 : in.pos < in.size);
	return 0;
}

static int compress_fd(ZSTD_CCtx *ctx, int in, int out)
{
	char buf[65536];

	for (;;) {
		ssize_t n = read(in, buf, sizeof(buf));
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		r = compress_block(ctx, out, buf, n, n == 0);
		if (r < 0 || n == 0)
			return r;
	}
}

int log_zstd_compress(const char *from, const char *to)
{
	_cleanup_close_ int in = safe_open(AT_FDCWD, from, O_RDONLY, 0);
	_cleanup_close_ int out = -1;
	ZSTD_CCtx *ctx;
	int r;

	if (in < 0)
		return in;
	out = safe_open(AT_FDCWD, to, O_WRONLY | O_CREAT | O_TRUNC, 0640);
	if (out < 0)
		return out;
	ctx = ZSTD_createCCtx();
	if (!ctx)
		return -ENOMEM;
	ZSTD_CCtx_setParameter(ctx, ZSTD_c_compressionLevel, LEVEL);
	ZSTD_CCtx_setParameter(ctx, ZSTD_c_checksumFlag, 1);
	r = compress_fd(ctx, in, out);
	ZSTD_freeCCtx(ctx);
	return r;
}

struct log_zstd {
	int fd;
	off_t offset;
	ZSTD_DCtx *ctx;
	ZSTD_inBuffer in;
	char buf[65536];
};

int log_zstd_new(int fd, struct log_zstd **ret)
{
	struct log_zstd *z = malloc(sizeof(*z));

	if (!z)
		return -ENOMEM;
	z->fd = fd;
	z->offset = 0;
	z->in = (ZSTD_inBuffer){ z->buf, 0, 0 };
	z->ctx = ZSTD_createDCtx();
	if (!z->ctx) {
		free(z);
		return -ENOMEM;
	}
	*ret = z;
	return 0;
}

struct log_zstd *log_zstd_free(struct log_zstd *z)
{
	if (z) {
		ZSTD_freeDCtx(z->ctx);
		free(z);
	}
	return NULL;
}

ssize_t log_zstd_read(struct log_zstd *z, char *buf, size_t len)
{
	ZSTD_outBuffer out = { buf, len, 0 };

	while (out.pos == 0) {
		size_t r;

		if (z->in.pos == z->in.size) {
			ssize_t n = log_fs_pread(z->fd, z->buf, sizeof(z->buf), z->offset);

			if (n < 0)
				return n;
			if (n == 0)
				return 0;
			z->offset += n;
			z->in.pos = 0;
			z->in.size = n;
		}
		r = ZSTD_decompressStream(z->ctx, &out, &z->in);
		if (ZSTD_isError(r))
			return -EBADMSG;
	}
	return out.pos;
}

#else /* without libzstd */

int log_zstd_compress(const char *from, const char *to)
{
	return -ENOTSUP;
}

int log_zstd_new(int fd, struct log_zstd **ret)
{
	return -ENOTSUP;
}

struct log_zstd *log_zstd_free(struct log_zstd *z)
{
	return NULL;
}

ssize_t log_zstd_read(struct log_zstd *z, char *buf, size_t len)
{
	return -ENOTSUP;
}
#endif
