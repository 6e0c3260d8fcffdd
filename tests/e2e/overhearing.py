# SPDX-License-Identifier: Apache-2.0
"""What a command says to elasticd, for tests that wait until it has said so."""

import contextlib
import os
import socket
import threading


def overhear(box, daemon, path, heard):
    """Listens at path until the box is closed, writes what callers say to the file heard, and tells it to
    the daemon."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()

    def copy(source, target, log):
        with contextlib.suppress(OSError), open(log, "ab", buffering=0) as out:
            while data := source.recv(65536):
                out.write(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def serve():
        while True:
            try:
                caller, called = listening.accept()[0], socket.socket(socket.AF_UNIX)
            except OSError:
                return  # close() was called
            called.connect(str(daemon.socket))
            for args in (caller, called, heard), (called, caller, os.devnull):
                threading.Thread(target=copy, args=args, daemon=True).start()

    def close():
        listening.shutdown(socket.SHUT_RDWR)  # ends accept()
        thread.join()
        listening.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    box.cleanups.append(close)
