#!/usr/bin/python3
# weir-test: timeout=120 bin=release
"""What can be said about the packages without building them: `make install` and debian/ know the
same files, the units are hardened, and the source archive comes out the same twice.
tests/package/ has the rest (`make package-test`).

    tests/integration/packaging.py [word...]
"""
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "..", "fault"))

from harness import ROOT, Skip, equal, expect, main, test  # noqa: E402

EXPOSURE_MAX = 2.0
MULTIARCH = "x86_64-linux-gnu"


def run(*command, **options):
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT,
                          env={**env, **options.pop("env", {})}, **options)
    expect(done.returncode == 0, "%s: %s" % (command[0], done.stdout[-400:]))
    return done.stdout


def read(*path):
    with open(os.path.join(ROOT, *path)) as f:
        return f.read()


def needs(program):
    found = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not found:
        raise Skip("there is no " + program)
    return found


def version():
    return re.search(r'^#define WEIR_VERSION "(.*)"', read("src/serve/serve.h"), re.M).group(1)


def units():
    return [n for n in sorted(os.listdir(os.path.join(ROOT, "packaging"))) if n.endswith(".service")]


@test("each unit is exposed to less than 2.0 by systemd's own count")
def _(folder):
    analyze = needs("systemd-analyze")
    equal(units(), ["weir-work@.service", "weir.service"], "units")
    for name in units():
        path = os.path.join(folder, name.replace("@.", "@x."))
        shutil.copy(os.path.join(ROOT, "packaging", name), path)
        said = run(analyze, "security", "--offline=true", "--no-pager", path)
        exposure = float(re.search(r"Overall exposure level for \S+: ([\d.]+)", said).group(1))
        expect(exposure < EXPOSURE_MAX, "%s is exposed to %s" % (name, exposure))


@test("the units name users, folders and a profile that are there")
def _(folder):
    users = re.findall(r"^u (\S+)", read("packaging/weir.sysusers"), re.M)
    for name in units():
        text = read("packaging", name)
        user = re.search(r"^User=(\S+)", text, re.M).group(1)
        expect(user in users, "%s: no user %s" % (name, user))
        equal(re.search(r"^Group=(\S+)", text, re.M).group(1), user, "group")
        for profile in re.findall(r"^AppArmorProfile=-(\S+)", text, re.M):
            expect("profile %s " % profile in read("packaging/weir.apparmor"), profile)
    for user in re.findall(r"^d \S+ \S+ (\S+) (\S+)", read("packaging/weir.tmpfiles"), re.M):
        expect(set(user) <= {*users, "root"}, "tmpfiles: no user %s" % (user,))


@test("the AppArmor profile can be compiled")
def _(folder):
    parser = needs("apparmor_parser")
    if not os.path.exists("/etc/apparmor.d/abstractions/base"):
        raise Skip("there are no abstractions")
    run(parser, "--skip-kernel-load", "--skip-cache", os.path.join(ROOT, "packaging/weir.apparmor"))


def rows(path):
    return [line.split() for line in read(path).splitlines() if line and not line.startswith("#")]


@test("every installed file is in one package, and packages want no others")
def _(folder):
    top = os.path.join(folder, "root")
    run("make", "install", "DESTDIR=" + top, "PREFIX=/usr", "LIBDIR=/usr/lib/" + MULTIARCH,
        "UNITDIR=/lib/systemd/system", "ZSHDIR=/usr/share/zsh/vendor-completions")
    files = [os.path.relpath(os.path.join(d, f), top) for d, _, fs in os.walk(top) for f in fs]
    expect(len(files) > 25, files)
    lists = [n for n in os.listdir(os.path.join(ROOT, "debian")) if n.endswith(".install")]
    patterns = {p[0]: n for n in [*lists, "not-installed"] for p in rows("debian/" + n)}
    used = set()
    for name in files:
        found = [p for p in patterns if fnmatch.fnmatch(name, p) or fnmatch.fnmatch(name, p + "/*")]
        equal(len(found), 1, "packages of " + name)
        used.update(found)
    left = {p for p in set(patterns) - used if not p.startswith("docs/")}
    equal(left, set(), "what is in debian/ and not installed")
    for name in ("usr/share/bash-completion/completions/weir", "usr/share/man/man1/weir.1"):
        expect(os.path.getsize(os.path.join(top, name)) > 1000, name + " is empty")
    run("make", "uninstall", "DESTDIR=" + top, "PREFIX=/usr", "LIBDIR=/usr/lib/" + MULTIARCH,
        "UNITDIR=/lib/systemd/system", "ZSHDIR=/usr/share/zsh/vendor-completions")
    left = [os.path.join(d, f) for d, _, fs in os.walk(top) for f in fs]
    equal([n for n in left if "/etc/weir/" not in n], [], "what uninstall leaves")


@test("packages and container are built with what tools/deps installs")
def _(folder):
    wanted = set(run("tools/deps", "list", "run").split())
    control = read("debian/control")
    declared = re.search(r"^Build-Depends:(.*?)^\S", control, re.M | re.S).group(1)
    declared = {re.sub(r" *\(.*\)", "", d.strip()) for d in declared.split(",") if d.strip()}
    missing = wanted - declared - {"gcc", "libc6-dev", "make", "tzdata"}  # of build-essential; to run
    equal(missing, set(), "what Build-Depends lacks")
    # A library that the program names must be installed in the container.
    needed = set(re.findall(r"NEEDED.*\[(lib[a-z0-9_]+?)[-.]", run("readelf", "-dW", "build/weir")))
    final = read("Containerfile").split("\nFROM ")[-1]
    for name in needed - {"libc", "libm", "libcrypto"}:  # the last is in libssl3
        expect(re.search(r"\b%s[-\d]" % name.rstrip("0123456789"), final),
               "the container does not install %s" % name)


@test("the source archive is the same twice, complete, and leaves nothing else behind")
def _(folder):
    if not os.path.exists(os.path.join(ROOT, ".git")):
        raise Skip("this is no clone")
    path = os.path.join(ROOT, "build", "weir-%s.tar.xz" % version())
    made = []
    for _ in range(2):
        run("make", "dist", env={"WEIR_XZ": "-0"})  # quicker than what is given away
        with open(path, "rb") as f:
            made.append(f.read())
    expect(made[0] == made[1], "two archives of one tree differ")
    names = run("tar", "--list", "--file", path).split()
    known = {"weir-%s/%s" % (version(), n) for n in run("git", "ls-files", "-z").split("\0") if n
             and os.path.lexists(os.path.join(ROOT, n))}
    equal(set(names), known, "names in the archive")
    long = run("tar", "--list", "--verbose", "--numeric-owner", "--file", path)
    expect(all(" 0/0 " in line for line in long.splitlines()), "an owner is in the archive")


@test("the list of parts is SPDX 2.3 and has each library that weir names")
def _(folder):
    needs("dpkg-query")
    path = os.path.join(ROOT, run("tools/sbom").strip())
    with open(path) as f:
        found = json.load(f)
    with open(path) as f:
        first = f.read()
    run("tools/sbom")
    with open(path) as f:
        equal(f.read(), first, "the second list")
    equal(found["spdxVersion"], "SPDX-2.3", "version")
    ids = {p["SPDXID"] for p in found["packages"]}
    equal(len(ids), len(found["packages"]), "different ids")
    for p in found["packages"]:
        expect(p["name"] and p["versionInfo"] and p["downloadLocation"] and p["licenseDeclared"], p)
        expect(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", p["SPDXID"]), p["SPDXID"])
    for r in found["relationships"]:
        expect({r["spdxElementId"], r["relatedSpdxElement"]} <= ids | {"SPDXRef-DOCUMENT"}, r)
    names = {p["name"] for p in found["packages"]}
    expect({"weir", "libc6", "libssl3", "libuv1", "libsqlite3-0", "node-llhttp"} <= names, names)


@test("the version is in one place, and the change log begins with it")
def _(folder):
    number = version()
    expect(re.fullmatch(r"\d+\.\d+\.\d+", number), number)
    heading = re.search(r"^## (\S+)", read("CHANGELOG.md"), re.M).group(1)
    equal(heading, number, "the first version of CHANGELOG.md")
    for path in ("Makefile", "debian/control", "debian/rules", "lib/weir.h", "lib/libweir.pc.in",
                 "tools/package", "tools/sbom", "Containerfile"):
        expect(number not in read(path), path + " names the version")


main()
