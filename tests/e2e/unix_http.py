# SPDX-License-Identifier: Apache-2.0
"""HTTP over a UNIX socket, as elasticd serves its metrics."""

import http.client
import socket


class UnixHttp(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self.path)
