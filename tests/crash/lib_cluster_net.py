"""A network of machines that can be cut, for servers of a cluster: network namespaces around one
bridge, each with an address of its own.

The caller runs in namespaces of its own, too (enter), so nothing here is seen outside, several
clusters can run side by side with the same addresses, and all ends with the caller.  Where there
are no namespaces to be had, every machine is the loopback, and nothing can be cut."""
import contextlib
import ctypes
import os
import shutil
import subprocess
import sys

INSIDE = "WEIR_CLUSTER_INSIDE"
CLONE_NEWNET = 0x40000000
NOWHERE = "02:00:00:00:00:01"  # an address that no machine has: what is sent there is lost
PREFIX = "10.99.0."
RUN = "/run"


def enter():
    """Runs the calling program again in network, mount and process namespaces, if it may."""
    if os.environ.get(INSIDE) or os.getuid() != 0 or not shutil.which("ip"):
        return
    spaces = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run(spaces + ["true"], stderr=subprocess.DEVNULL, check=False).returncode:
        return
    os.environ[INSIDE] = "1"
    os.execvp(spaces[0], spaces + [sys.executable] + sys.argv)


def run(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise AssertionError("%s: %s" % (" ".join(words), done.stdout.decode(errors="replace")))


class Loopback:
    """All machines in one; nothing can be cut."""
    address = "127.0.0.1"

    @contextlib.contextmanager
    def inside(self):
        yield


class Machine:
    def __init__(self, name, number):
        self.name, self.address = name, PREFIX + str(number)
        run("ip", "netns", "add", name)
        run("ip", "link", "add", "v" + name, "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", "v" + name, "master", "br0", "up")
        run("ip", "-n", name, "addr", "add", self.address + "/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            run("ip", "-n", name, "link", "set", device, "up")

    @contextlib.contextmanager
    def inside(self):
        """The calling thread, and what it starts, is on this machine."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/thread-self/ns/net", "rb") as home, \
                open(RUN + "/netns/" + self.name, "rb") as there:
            if libc.setns(there.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
            try:
                yield
            finally:
                if libc.setns(home.fileno(), CLONE_NEWNET):
                    os.abort()  # nothing that follows would be where it should


class Net:
    def __init__(self):
        self.is_real = bool(os.environ.get(INSIDE))
        self.machines, self.cuts, self.slowed = {}, set(), set()
        if self.is_real:
            run("mount", "-t", "tmpfs", "tmpfs", RUN)
            run("ip", "link", "set", "lo", "up")
            run("ip", "link", "add", "br0", "type", "bridge")
            run("ip", "addr", "add", PREFIX + "1/24", "dev", "br0")
            run("ip", "link", "set", "br0", "up")

    def machine(self, name):
        if not self.is_real:
            return Loopback()
        if name not in self.machines:
            self.machines[name] = Machine(name, 10 + len(self.machines))
        return self.machines[name]

    def cut(self, sender, receiver):
        """What the one sends to the other is lost from now on, and neither is told.  The other
        way stays open: a cut is one way."""
        a, b = self.machines[sender], self.machines[receiver]
        run("ip", "-n", a.name, "neigh", "replace", b.address, "lladdr", NOWHERE, "dev", "eth0",
            "nud", "permanent")
        self.cuts.add((sender, receiver))

    def mend(self):
        for sender, receiver in sorted(self.cuts):
            run("ip", "-n", sender, "neigh", "del", self.machines[receiver].address, "dev", "eth0")
        self.cuts.clear()
        for name in sorted(self.slowed):
            run("tc", "-n", name, "qdisc", "del", "dev", "eth0", "root")
        self.slowed.clear()

    def slow(self, name, kbit):
        """What this machine sends leaves it no faster than that: it queues for up to a second, and
        what would queue longer is lost.  (netem, which only delays, is not in every kernel.)"""
        run("tc", "-n", name, "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate",
            "%dkbit" % kbit, "burst", "5kb", "latency", "1000ms")
        self.slowed.add(name)


# ---------------------------------------------------------------- disks that fill up


class Disk:
    """A small file system of its own for a folder, where mounting is allowed."""

    def __init__(self, folder, megabytes=3000):
        self.folder, self.size = folder, megabytes << 20
        os.makedirs(folder, exist_ok=True)
        run("mount", "-t", "tmpfs", "-o", "size=%d,mode=0700" % self.size, "tmpfs", folder)

    def used(self):
        st = os.statvfs(self.folder)
        return (st.f_blocks - st.f_bfree) * st.f_frsize

    def fill(self, left=0):
        """Leaves room for about that many bytes.  A size below what is used is refused, and the
        server goes on writing."""
        for more in range(100):
            try:
                size = self.used() + left + (more << 16) + 4096
                return run("mount", "-o", "remount,size=%d" % size, self.folder)
            except AssertionError:
                if more == 99:
                    raise

    def empty(self):
        run("mount", "-o", "remount,size=%d" % self.size, self.folder)
