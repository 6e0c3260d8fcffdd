# SPDX-License-Identifier: Apache-2.0
"""An agent whose user has it say what no agent says."""

import collections
import json
import socket
import threading


class FakeAgent:
    """Listens in the place of a job's agent, and answers each method as it likes: with nothing but "yes",
    where the answer is None, not at all, and where it is bytes, with these alone. asked are the methods that
    it heard of; closed counts connections that were closed, by the last method of each."""

    def __init__(self, path, answers):
        self.answers = answers
        self.asked, self.closed = [], collections.Counter()
        path.unlink()
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.bind(str(path))
        self.sock.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection = self.sock.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection):
        buffer, method = b"", None
        try:
            while data := connection.recv(65536):
                *messages, buffer = (buffer + data).split(b"\0")
                for message in messages:
                    method = json.loads(message)["method"].rpartition(".")[2]
                    self.asked.append(method)
                    connection.sendall(self._reply(self.answers.get(method, {})))
        except ConnectionError:
            pass
        self.closed[method] += 1

    @staticmethod
    def _reply(answer):
        if answer is None or isinstance(answer, bytes):
            return answer or b""
        return json.dumps(answer if "error" in answer else {"parameters": answer}).encode() + b"\0"

    def close(self):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
