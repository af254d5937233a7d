"""A history file that has learned: one minute of a weir, copied to the days before.

A rollup is core/rollup.h: a checksum, a version, then varints: the first minute, how many minutes it
has, and how long weir had been there before.  What follows stays as it is."""
import os
import sqlite3
import struct
import time

from lib_checksums import crc32c

HEAD = 5  # bytes of checksum and version
TENS_PER_DAY, MINUTES_PER_DAY = 144, 1440


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def after_varints(body, at, count):
    for _ in range(count):
        while body[at] & 128:
            at += 1
        at += 1
    return at


def at_minute(body, at, span):
    rest = body[4:HEAD] + varint(at) + varint(span) + varint(0) + body[after_varints(body, HEAD, 3):]
    return struct.pack("<I", crc32c(rest)) + rest


def teach(data, days):
    """Of a weir that is stopped: its last minute becomes those of the last day, and the ten minutes of
    so many days; also those that are going on, and are over soon."""
    db = sqlite3.connect(os.path.join(data, "history.db"))
    body, = db.execute("SELECT body FROM minute WHERE step = 1 ORDER BY at DESC LIMIT 1").fetchone()
    now = int(time.time()) // 60
    rows = [(1, now - i) for i in range(MINUTES_PER_DAY + 1)]
    rows += [(10, now // 10 * 10 - 10 * i) for i in range(days * TENS_PER_DAY + 1)]
    with db:
        db.executemany("INSERT OR REPLACE INTO minute VALUES(?, ?, ?)",
                       [(step, at, at_minute(body, at, step)) for step, at in rows])
    db.close()
