#!/usr/bin/python3
# weir-test: timeout=60
"""A server on a unix socket that hangs up after its last byte: the client behind the MySQL door gets all
of them, however slowly it reads."""
import os
import select
import socket
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import lib_mysql_door  # noqa: E402,F401  it finds the harness
from lib_mysql_wire import Raw  # noqa: E402
from harness import Server, equal, main, test  # noqa: E402

LONGEST = 0xFFFFFE  # of a packet; longer than all buffers on the way hold
FULL_S = 0.5  # a socket that takes nothing for so long is full
GREETING = (b"\x0a5.5.5-10.11.0-MariaDB\0" + b"\x01\0\0\0" + b"12345678\0" + b"\xfe\xf7" + b"\x08" + b"\x02\0"
            + b"\xff\x81" + b"\x15" + bytes(6) + bytes(4) + b"123456789012\0" + b"mysql_native_password\0")
OK = b"\0\0\0\x02\0\0\0"


def packet(payload, seq):
    return len(payload).to_bytes(3, "little") + bytes([seq]) + payload


def serve(listener, sent):
    """One session: greeting, any login, and to the first command as much of a long row as there is room
    for.  Then it hangs up."""
    c, _ = listener.accept()
    c.sendall(packet(GREETING, 0))
    c.recv(65536)
    c.sendall(packet(OK, 2))
    c.recv(65536)
    c.setblocking(False)
    row = packet(b"x" * LONGEST, 1)
    while select.select([], [c], [], FULL_S)[1]:
        sent.append(c.send(row[:65536]))
    c.close()


@test("the last bytes of a server that hung up reach a slow client")
def _(folder):
    path, sent = os.path.join(folder, "db.sock"), []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        server = threading.Thread(target=serve, args=(listener, sent), daemon=True)
        server.start()
        weir = Server(folder, config='mysql "shop" { listen = {"127.0.0.1:0"} server = "%s" mode = "off" }' % path)
        c = Raw(weir.mysql[0])
        c.login("shop", "x")
        c.send(b"\x03SELECT 1")
        server.join()  # all buffers are full, and the socket is closed
        n = 0
        while True:
            chunk = c.socket.recv(1 << 20)
            if not chunk:
                break
            n += len(chunk)
        equal(n, sum(sent), "bytes")
        c.close()
        equal(weir.stop(20), 0, "exit code")


main()
