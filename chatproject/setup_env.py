"""From a fresh clone to a running server, with nothing but Python: what `make run` does.

Runs under the system's Python before the virtual environment exists: standard library only, and
old Pythons must be able to read it far enough to say that they are too old.
"""

import errno
import hashlib
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
STAMP = VENV / "installed-requirements"
ENV_FILE = ROOT / ".env"
ENV_EXAMPLE = ROOT / ".env.example"
OLDEST_PYTHON = (3, 11)
DEV_REQUIREMENTS = ["requirements.txt", "requirements-dev.txt"]


class Problem(Exception):
    """Something that is missing here; its text is one line that ends with what to do."""


# --- What must be there ---------------------------------------------------------------------------


def check_preconditions() -> None:
    """Python 3.11+, its venv module, and git."""
    if sys.version_info < OLDEST_PYTHON:
        raise Problem(
            "%s is Python %d.%d and 3.11 or newer is needed: install one and run "
            "`make PYTHON=/path/to/python3.11 ...`" % ((sys.executable,) + sys.version_info[:2])
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError as missing:
        raise Problem(
            "%s has no %s module, which virtual environments need: install it (on Debian and "
            "Ubuntu: apt-get install python%d.%d-venv)"
            % ((sys.executable, missing.name) + sys.version_info[:2])
        ) from None
    if shutil.which("git") is None:
        raise Problem("git was not found: install it (on Debian and Ubuntu: apt-get install git)")


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to the address that the server will listen at, or a Problem that names it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except (OSError, OverflowError) as error:
        sock.close()
        advice = "set HOST to an address of this machine and PORT to a number below 65536"
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            advice = "stop what listens there, or take another port: `make run PORT=%d`"
            advice = advice % (port + 1)
        reason = getattr(error, "strerror", None) or error
        raise Problem("cannot listen at %s:%s (%s): %s" % (host, port, reason, advice)) from None
    return sock


# --- The virtual environment ----------------------------------------------------------------------


def run(*command: object) -> int:
    """Run a program in the project's folder; its exit code."""
    return subprocess.call([str(part) for part in command], cwd=str(ROOT))


def install(names: list) -> None:
    """Make `.venv` and install the named requirement files, unless that was done already."""
    wanted = {name: hashlib.sha256((ROOT / name).read_bytes()).hexdigest() for name in names}
    if all(installed().get(name) == digest for name, digest in wanted.items()) and venv_works():
        return
    if not venv_works():
        print("Making the virtual environment .venv ...", flush=True)
        if run(sys.executable, "-m", "venv", "--clear", VENV) != 0:
            raise Problem("the virtual environment could not be made: see the lines above")
    print("Installing %s (about a minute) ..." % " and ".join(names), flush=True)
    arguments = [part for name in names for part in ("-r", name)]
    pip = [VENV_PYTHON, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    if run(*pip, *arguments) != 0:
        raise Problem("packages could not be installed: see pip's lines above; then run it again")
    lines = ["%s %s\n" % item for item in sorted({**installed(), **wanted}.items())]
    STAMP.write_text("".join(lines), encoding="utf-8")


def installed() -> dict:
    """Requirement files that were installed, each with the digest that it had then."""
    if not STAMP.exists():
        return {}
    lines = STAMP.read_text(encoding="utf-8").splitlines()
    return dict(line.split(" ", 1) for line in lines if " " in line)


def venv_works() -> bool:
    """Whether `.venv` holds a Python that starts, is new enough and has pip."""
    if not VENV_PYTHON.exists():
        return False
    probe = "import sys, pip; sys.exit(sys.version_info < %r)" % (OLDEST_PYTHON,)
    return subprocess.call([str(VENV_PYTHON), "-c", probe], stderr=subprocess.DEVNULL) == 0


# --- .env -----------------------------------------------------------------------------------------


def read_env_file() -> dict:
    """The values in `.env`, read as the settings read them."""
    if not ENV_FILE.exists():
        return {}
    pairs = re.findall(
        r"^(?:export )?([A-Za-z_0-9]+)=(.*)$", ENV_FILE.read_text("utf-8"), flags=re.MULTILINE
    )
    return {name: re.sub(r"\A(['\"])(.*)\1\Z", r"\2", value) for name, value in pairs}


def setting(name: str, default: str) -> str:
    """A value from the environment, else from `.env`, else the default."""
    return os.environ.get(name) or read_env_file().get(name) or default


def write_env_file() -> None:
    """Make `.env` from the example and give it what it lacks; values that it has are kept."""
    source = ENV_FILE if ENV_FILE.exists() else ENV_EXAMPLE
    before = text = source.read_text(encoding="utf-8")
    for name, value in (
        ("SECRET_KEY", secrets.token_urlsafe(50)),
        ("DEMO_PASSWORD", secrets.token_urlsafe(9)),
    ):
        if not setting(name, ""):
            text = with_value(text, name, value)
    if source is ENV_FILE and text == before:
        ENV_FILE.chmod(0o600)
        return
    draft = ENV_FILE.with_name(".env.new")
    draft.touch(mode=0o600)
    draft.write_text(text, encoding="utf-8")
    os.replace(str(draft), str(ENV_FILE))
    print("Wrote .env" if source is ENV_EXAMPLE else "Completed .env", flush=True)


def with_value(text: str, name: str, value: str) -> str:
    """`text` of an env file with `name` set: in its own empty line, or in a new one at the end."""
    line = "%s=%s" % (name, value)
    changed, count = re.subn(r"^%s=.*$" % name, line, text, count=1, flags=re.MULTILINE)
    return changed if count else text.rstrip("\n") + "\n" + line + "\n"


# --- Commands -------------------------------------------------------------------------------------


def serve() -> None:
    """Everything that `make run` does; ends by becoming the server."""
    check_preconditions()
    bind(setting("HOST", "127.0.0.1"), port_number()).close()
    install(["requirements.txt"])
    write_env_file()
    for command in (["migrate", "--noinput"], ["bootstrap", "--demo"]):
        if run(VENV_PYTHON, "manage.py", *command) != 0:
            raise Problem("`manage.py %s` failed: see the lines above" % " ".join(command))
    os.chdir(str(ROOT))
    os.execv(str(VENV_PYTHON), [str(VENV_PYTHON), "-m", "chatproject.serve"])


def port_number() -> int:
    raw = setting("PORT", "8000")
    if not re.match(r"[0-9]{1,5}\Z", raw) or not 0 < int(raw) < 65536:
        raise Problem("PORT is %r: set it to a number from 1 to 65535" % raw)
    return int(raw)


def prepare_dev() -> None:
    """The virtual environment with everything that tests and checks need."""
    check_preconditions()
    install(DEV_REQUIREMENTS)


def main(arguments: list) -> int:
    commands = {"serve": serve, "dev": prepare_dev}
    if len(arguments) != 1 or arguments[0] not in commands:
        print("usage: setup_env.py %s" % "|".join(commands), file=sys.stderr)
        return 2
    try:
        commands[arguments[0]]()
    except Problem as problem:
        print("error: %s" % problem, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
