"""What `make run` does before there is a server."""

from __future__ import annotations

import ast
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from chatproject import setup_env
from tests.environment import ROOT

EXAMPLE = "# Signs cookies.\nSECRET_KEY=\nHOST=127.0.0.1\n# For the demo users.\nDEMO_PASSWORD=\n"


@pytest.fixture
def env_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a `.env` that is not there yet, beside an example; an empty environment."""
    (tmp_path / ".env.example").write_text(EXAMPLE, encoding="utf-8")
    monkeypatch.setattr(setup_env, "ENV_EXAMPLE", tmp_path / ".env.example")
    monkeypatch.setattr(setup_env, "ENV_FILE", tmp_path / ".env")
    for name in ("SECRET_KEY", "DEMO_PASSWORD", "HOST", "PORT"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / ".env"


def test_a_first_run_makes_the_file_with_fresh_secrets_for_its_owner_alone(env_file: Path) -> None:
    setup_env.write_env_file()
    values = setup_env.read_env_file()
    assert len(values["SECRET_KEY"]) >= 50
    assert len(values["DEMO_PASSWORD"]) >= 12
    assert values["HOST"] == "127.0.0.1"
    assert env_file.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in env_file.parent.iterdir()) == [".env", ".env.example"]


def test_two_first_runs_make_different_secrets(env_file: Path) -> None:
    setup_env.write_env_file()
    first = setup_env.read_env_file()
    env_file.unlink()
    setup_env.write_env_file()
    second = setup_env.read_env_file()
    assert first["SECRET_KEY"] != second["SECRET_KEY"]
    assert first["DEMO_PASSWORD"] != second["DEMO_PASSWORD"]


def test_a_second_run_changes_nothing(env_file: Path) -> None:
    setup_env.write_env_file()
    before = env_file.read_bytes(), env_file.stat().st_mtime_ns
    setup_env.write_env_file()
    assert (env_file.read_bytes(), env_file.stat().st_mtime_ns) == before


def test_values_and_comments_of_an_existing_file_are_kept(env_file: Path) -> None:
    mine = "# mine\nSECRET_KEY='chosen by me'\nEXTRA=1\n"
    env_file.write_text(mine, encoding="utf-8")
    env_file.chmod(0o644)
    setup_env.write_env_file()
    assert env_file.read_text(encoding="utf-8").startswith(mine)
    assert setup_env.read_env_file()["SECRET_KEY"] == "chosen by me"
    assert list(setup_env.read_env_file()) == ["SECRET_KEY", "EXTRA", "DEMO_PASSWORD"]
    assert env_file.stat().st_mode & 0o777 == 0o600


def test_a_secret_in_the_environment_is_not_written_down(
    env_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "from the environment")
    setup_env.write_env_file()
    assert setup_env.read_env_file()["SECRET_KEY"] == ""
    assert setup_env.setting("SECRET_KEY", "") == "from the environment"


def test_the_environment_wins_over_the_file(
    env_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env_file.write_text("PORT=8123\n", encoding="utf-8")
    assert setup_env.port_number() == 8123
    monkeypatch.setenv("PORT", "8124")
    assert setup_env.port_number() == 8124


@pytest.mark.parametrize("port", ["0", "65536", "eighty", "-1", "8000 # web", "８０００"])
def test_a_port_that_is_none_is_named(
    port: str, env_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORT", port)
    with pytest.raises(setup_env.Problem) as problem:
        setup_env.port_number()
    assert str(problem.value) == f"PORT is {port!r}: set it to a number from 1 to 65535"


def test_a_busy_port_is_named_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        with pytest.raises(setup_env.Problem) as problem:
            setup_env.bind("127.0.0.1", port)
    assert str(problem.value) == (
        f"cannot listen at 127.0.0.1:{port} (Address already in use): stop what listens there,"
        f" or take another port: `make run PORT={port + 1}`"
    )


def test_a_missing_venv_module_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "ensurepip.py").write_text("raise ImportError('gone', name='ensurepip')\n")
    done = _setup_env("dev", PYTHONPATH=str(tmp_path))
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: /")  # then this Python's path
    assert done.stderr.endswith(
        " has no ensurepip module, which virtual environments need: install it"
        f" (on Debian and Ubuntu: apt-get install {version}-venv)\n"
    )
    assert done.stderr.count("\n") == 1


def test_a_missing_git_is_named_in_one_line(tmp_path: Path) -> None:
    done = _setup_env("serve", PATH=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == (
        "error: git was not found: install it (on Debian and Ubuntu: apt-get install git)\n"
    )


def test_the_script_can_be_read_by_old_pythons() -> None:
    source = Path(setup_env.__file__).read_text(encoding="utf-8")
    assert ast.parse(source, feature_version=(3, 6)).body


def _setup_env(command: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "chatproject/setup_env.py", command],
        cwd=ROOT,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
