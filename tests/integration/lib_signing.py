# weir-test: skip
"""Signatures made as docs/signing.md says, and files of keys."""
import hashlib
import hmac
import os

SECRETS = {"new": bytes(range(32)), "old": b"another secret of some length"}


def canonical(hook, args="", queue="default", group="", priority=100, attempts=3, timeout=300000,
              single=""):
    lines = b"weir-sign-1\n"
    for field in (hook, args, queue, group, priority, attempts, timeout, single):
        field = field if isinstance(field, bytes) else str(field).encode()
        lines += b"%d:%s\n" % (len(field), field)
    return lines


def sign(secret, hook, args="", key="new", **fields):
    mac = hmac.new(secret, canonical(hook, args, **fields), hashlib.sha256)
    return "%s:%s" % (key, mac.hexdigest())


def write_keys(folder, *ids, name="signing.keys", mode=0o600, content=None):
    path = os.path.join(folder, name)
    with open(path, "w") as f:
        f.write(content if content is not None else
                "".join("%s %s\n" % (i, SECRETS[i].hex()) for i in ids))
    os.chmod(path, mode)
    return path
