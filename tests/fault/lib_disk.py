"""Small disks, and a way to fill them."""
import contextlib
import glob
import os
import subprocess

from harness import Server, Skip


def mount(command, place):
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise Skip("cannot mount %s here: %s" % (place, done.stderr.strip()))


@contextlib.contextmanager
def mounted(place):
    try:
        yield place
    finally:
        for server in list(Server.alive):
            server.kill()
        subprocess.run(["umount", "-l", place], check=True)


@contextlib.contextmanager
def small_disk(folder, megabytes):
    place = os.path.join(folder, "disk")
    os.mkdir(place)
    mount(["mount", "-t", "tmpfs", "-o", "size=%dm" % megabytes, "tmpfs", place], "a tmpfs")
    with mounted(place):
        yield place


@contextlib.contextmanager
def ext4_disk(folder, megabytes):
    image, place = os.path.join(folder, "image"), os.path.join(folder, "disk")
    os.mkdir(place)
    with open(image, "wb") as f:
        f.truncate(megabytes << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", image], check=True)
    mount(["mount", "-o", "loop", image, place], "an image")
    with mounted(place):
        yield place


def free_bytes(place):
    s = os.statvfs(place)
    return s.f_bavail * s.f_frsize


class Ballast:
    """A file that takes whatever space there is."""

    def __init__(self, place):
        self.path = os.path.join(place, "ballast")

    def fill(self):
        with open(self.path, "ab") as f:
            with contextlib.suppress(OSError):
                while True:
                    f.write(b"x" * (1 << 20))
                    f.flush()
        with open(self.path, "ab", buffering=0) as f:
            with contextlib.suppress(OSError):
                while f.write(b"x" * 4096) == 4096:
                    pass

    def leave(self, n):
        """Frees n bytes again."""
        os.truncate(self.path, max(0, os.path.getsize(self.path) - n))

    def drop(self):
        os.unlink(self.path)


ZEROS = bytes(1 << 20)


def used_bytes(path):
    """Up to the last byte that is not zero."""
    used = at = 0
    with open(path, "rb") as f:
        while chunk := f.read(len(ZEROS)):
            if chunk != ZEROS[:len(chunk)]:
                used = at + len(chunk.rstrip(b"\0"))
            at += len(chunk)
    return used


def shrink_log(data):
    """Gives the space back that the log of a stopped server has reserved: a copy is then as small
    as what was written.  The bytes of its files stay the same."""
    for path in glob.glob(os.path.join(data, "log", "*.seg")):
        size, used = os.path.getsize(path), used_bytes(path)
        os.truncate(path, used)
        os.truncate(path, size)
