#!/usr/bin/python3
"""Which C files are as they were when every check of `make lint` found them clean.

    tools/lint_green.py          prints the files that are not
    tools/lint_green.py --mark   writes .ci/lint-green; `tools/lint --mark` does, when all is clean

.ci/lint-green has a line for each C file: two digests and the name.  Both are of the file, of headers
of ours, of the tools' versions and of their settings; so a line holds in every clone, whatever its
history.  The first digest has the headers that the file names itself: it is asked for by clang's
analyzer, which takes 19 of 20 seconds of clang-tidy.  The second has all headers, also those that
headers include, and everything else asks for it.
"""

import functools
import hashlib
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
GREEN = ROOT / ".ci/lint-green"
FOLDERS = ("src", "lib", "tests", "bench", "examples")
EVERYWHERE = SRC / "base/banned.h"  # every file includes it, and none by name
TIDY_FLAGS = ["-std=gnu17", "-Isrc", "-Ilib", "-I/usr/share/include/llhttp", "-D_GNU_SOURCE",
              "-I/usr/include/mariadb", "-I/usr/include/postgresql"]


def c_files():
    return sorted(p for folder in FOLDERS for p in (ROOT / folder).rglob("*.c")
                  if "node_modules" not in p.parts)


@functools.cache
def included(path):
    """The headers of ours that a file names: from src/, from tests/, or beside it."""
    names = re.findall(r'^\s*#\s*include\s*"([^"]+)"', path.read_text(errors="replace"), re.M)
    return {h.resolve() for name in names
            for h in (SRC / name, ROOT / "tests" / name, ROOT / "lib" / name, path.parent / name)
            if h.exists()}


def closure(path):
    """The file and all headers of ours that it needs."""
    seen, new = set(), {path}
    while new:
        seen |= new
        new = {h for p in new for h in included(p)} - seen
    return seen


def version_of(program):
    """The line with its version; others tell of the machine, such as "Host CPU"."""
    said = subprocess.run([program, "--version"], stdout=subprocess.PIPE, check=True).stdout
    return re.search(rb"^.*\d+\.\d+.*\n", said, re.M).group()


@functools.cache
def settings_of_tidy():
    return (version_of("clang-tidy") + " ".join(TIDY_FLAGS).encode()
            + (ROOT / ".clang-tidy").read_bytes() + (ROOT / "tools/tidy.h").read_bytes())


@functools.cache
def settings_of_all():
    warnings = re.search(r"^WARN := (?:.*\\\n)*.*", (ROOT / "Makefile").read_text(), re.M).group()
    return (settings_of_tidy() + version_of("clang") + version_of("cppcheck") + warnings.encode()
            + (ROOT / "tools/lint").read_bytes())


@functools.cache
def bytes_of(path):
    return str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0"


def digest_of(settings, files):
    digest = hashlib.sha256(settings)
    for f in sorted(files | {EVERYWHERE}):
        digest.update(bytes_of(f))
    return digest.hexdigest()[:16]


def near_digest(path):
    return digest_of(settings_of_tidy(), {path} | included(path))


def whole_digest(path):
    return digest_of(settings_of_all(), closure(path))


@functools.cache
def green():
    """{name: (digest with the headers it names, digest with all)}"""
    lines = GREEN.read_text().splitlines() if GREEN.exists() else []
    return {words[2]: (words[0], words[1]) for words in map(str.split, lines) if len(words) == 3}


def not_green(files):
    return [f for f in files
            if green().get(str(f.relative_to(ROOT)), ("", ""))[1] != whole_digest(f)]


def not_analyzed(files):
    return [f for f in files
            if green().get(str(f.relative_to(ROOT)), ("", ""))[0] != near_digest(f)]


def main():
    if sys.argv[1:] == ["--mark"]:
        GREEN.write_text("".join(f"{near_digest(f)} {whole_digest(f)} {f.relative_to(ROOT)}\n"
                                 for f in c_files()))
    elif sys.argv[1:]:
        sys.exit("usage: tools/lint_green.py [--mark]")
    else:
        sys.stdout.writelines(f"{f.relative_to(ROOT)}\n" for f in not_green(c_files()))


if __name__ == "__main__":
    main()
