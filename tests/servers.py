"""Real server processes for tests: the command that `make run` ends in, on a free port."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.embedded import START_SECONDS, free_port, wait_for
from tests.environment import ROOT, process_environment


@dataclass
class Server:
    """A running server process and how to end it."""

    url: str
    port: int
    process: subprocess.Popen[bytes]
    log_path: Path

    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def check_alive(self) -> None:
        """Fail, with the end of its log, when the process has ended by itself."""
        code = self.process.poll()
        assert code is None, (
            f"the server ended with exit code {code}; its log:\n{self.log()[-3000:]}"
        )

    def kill(self) -> None:
        """kill -9: nothing is written, nothing is said good-bye to."""
        self.process.kill()
        self.process.wait()

    def hang(self) -> None:
        """Stop the process where it stands (SIGSTOP): its sockets stay open."""
        self.process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def terminate(self, within: float = 30) -> int:
        """SIGTERM as at a deployment; the exit code once the process has drained."""
        self.process.terminate()
        return self.process.wait(within)


@contextmanager
def server(
    log_folder: Path, port: int = 0, *, database_url: str, redis_url: str = "", **settings: str
) -> Iterator[Server]:
    """A server on the database, answering, at `port` or a free one; killed at the end if alive."""
    port = port or free_port()
    log_path = log_folder / f"server-{port}-{time.monotonic_ns()}.log"
    environ = process_environment(
        HOST="127.0.0.1",
        PORT=str(port),
        DATABASE_URL=database_url,
        REDIS_URL=redis_url,
        **{"LOG_LEVEL": "INFO", "CHAT_MEDIA_ROOT": str(log_folder / "media"), **settings},
    )
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "chatproject.serve"],
            cwd=ROOT,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    started = Server(f"http://127.0.0.1:{port}", port, process, log_path)
    try:
        _wait_until_answering(started)
        yield started
    finally:
        started.wake()
        started.kill()


def _wait_until_answering(started: Server) -> None:
    try:
        wait_for(lambda: _answers(started.url), started.process, "the server")
    except RuntimeError as problem:
        raise RuntimeError(f"{problem}; its log:\n{started.log()}") from None


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(f"{url}/accounts/login/", timeout=START_SECONDS).close()
    except urllib.error.HTTPError:
        return True  # an answer all the same; what it should be is the test's matter
    except OSError:
        return False
    return True
