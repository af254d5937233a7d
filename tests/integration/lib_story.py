"""A story with a real MariaDB that is played once, while each test looks at one part of it."""
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fault"))

from harness import Skip  # noqa: E402


class Story:
    """play(folder) gives the facts; an error that it ended with is raised for each test."""

    def __init__(self, name, play):
        self.name, self.play, self.outcome = name, play, None

    def facts(self):
        if self.outcome is None:
            self.outcome = self.run()
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def run(self):
        if not shutil.which("mariadbd", path=os.environ.get("PATH", "") + ":/usr/sbin"):
            return Skip("mariadbd is not installed")
        folder = tempfile.mkdtemp(prefix="weir-%s." % self.name)
        try:
            return self.play(folder)
        except Exception as error:
            return error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
