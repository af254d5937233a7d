"""The databases of examples/purge and of demo/ for tests: the same as those programs start, but with
system tables from a prepared folder, which takes seconds less, and with ports that no other test has.

    shared_pair()       primary and replica, one pair for the whole script
    quick_databases()   from now on play.Play and story.Run start theirs in this way, too
"""
import atexit
import functools
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, "..", "..", "examples", "purge"))
sys.path.insert(0, os.path.join(HERE, "..", "..", "demo"))

import pair  # noqa: E402
import shop  # noqa: E402
from lib_databases import Maria, copy_folder, free_port, prepared  # noqa: E402
from harness import Skip  # noqa: E402

SIZES = ["--innodb-buffer-pool-size=64M", "--innodb-log-file-size=8M"]


def fill(folder, args, statements):
    """The statements run at the start of the server, and are not for its replicas."""
    if not os.path.exists(Maria.PROGRAM):
        raise Skip("mariadbd is not installed")
    data = next(a for a in args if a.startswith("--datadir=")).partition("=")[2]
    copy_folder(prepared(Maria.PROGRAM, Maria._fill), data)
    path = os.path.join(folder, "init.sql")
    with open(path, "w") as f:
        f.write("\n".join(("SET SESSION sql_log_bin = 0;",) + tuple(statements)) + "\n")
    args[:] = [a for a in args if not a.startswith("--innodb-")] + SIZES + ["--init-file=" + path]


def quick_databases():
    pair.free_port = free_port
    pair.Server._fill = lambda self: fill(self.folder, self.args, pair.USERS)
    shop.MariaDB._fill = lambda self, args: fill(self.folder, args, shop.SCHEMA)


@functools.lru_cache(None)
def shared_pair():
    quick_databases()
    folder = tempfile.mkdtemp(prefix="pair.", dir=os.environ.get("TMPDIR"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    both = pair.Pair(folder)
    atexit.register(both.stop)
    return both
