#!/usr/bin/python3
# weir-test: timeout=120
"""One folder, one process."""
from harness import Server, WEIR, equal, expect, main, test
import subprocess


def start_second(first):
    return subprocess.run([WEIR, "serve", "--data", first.data, "--resp", "127.0.0.1:0", "--http",
                           "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=20)


@test("a second process on the same folder is refused and the first does not notice")
def _(folder):
    first = Server(folder)
    with first.client() as c:
        job_id = c("ENQUEUE", "hook", "args")
        for _ in range(3):
            second = start_second(first)
            equal(second.returncode, 5, "exit code of the second")
            expect("ready" not in second.stdout, "the second says it is ready")
            expect(first.data in second.stderr and "process" in second.stderr,
                   "the second does not say why: " + second.stderr)
            equal(c("JOB", job_id)[1], job_id)
            c("ENQUEUE", "hook", "args")
    equal(first.stop(), 0, "exit code of the first")


@test("a folder is free again after kill -9")
def _(folder):
    Server(folder).kill()
    equal(Server(folder).stop(), 0, "exit code")


if __name__ == "__main__":
    main()
