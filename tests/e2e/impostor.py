# SPDX-License-Identifier: Apache-2.0
"""Another user who listens where elasticd is expected, and says what it hears."""

from harness import as_user, other_user

IMPOSTOR = """
import pathlib, socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
pathlib.Path(sys.argv[1]).chmod(0o666)
listening.listen()
print("listens", flush=True)
while True:
    peer = listening.accept()[0]
    data = peer.recv(65536)
    if data:
        print("heard", data, flush=True)
        peer.sendall(b'{"parameters":{}}' + bytes(1))
"""


def impostor(box, path):
    box.open_to_all()
    program = box.start(*as_user(other_user(), "/usr/bin/python3", "-c", IMPOSTOR, path))
    program.wait_out("listens")
    return program


def heard(program):
    return "heard" in program.out
