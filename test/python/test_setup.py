# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Setting up without the rights to install: the exact line to run, and nothing touched."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def script(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def set_up(tmp_path: Path, *missing: str, user: int = 1000) -> subprocess.CompletedProcess:
    """Runs tools/setup.sh as `user`, with `missing` packages not installed."""
    tools = tmp_path / "bin"
    tools.mkdir()
    script(tools, "id", f"echo {user}")
    # The last argument is the package.
    script(
        tools,
        "dpkg-query",
        'for package; do :; done; case "$package" in '
        + "".join(f"{name}) exit 1;; " for name in missing)
        + "esac; printf 'install ok installed'",
    )
    script(tools, "apt-get", "echo apt-get must not run; exit 9")
    environment = {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHON": sys.executable,
        "VENV": str(tmp_path / "venv"),
    }
    return subprocess.run(
        ["sh", ROOT / "tools" / "setup.sh"],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_without_root_the_line_is_printed(tmp_path):
    result = set_up(tmp_path, "ninja-build", "lld-22")
    assert result.returncode == 1
    line = (
        "sudo apt-get update && sudo apt-get install -y --no-install-recommends lld-22 ninja-build"
    )
    assert line in [text.strip() for text in result.stderr.splitlines()]
    assert not (tmp_path / "venv").exists()


def test_an_old_python_is_named(tmp_path):
    script(tmp_path, "python3.9", 'case "$1" in -V) echo Python 3.9.2;; *) exit 1;; esac')
    environment = {**os.environ, "PYTHON": str(tmp_path / "python3.9")}
    result = subprocess.run(
        ["sh", ROOT / "tools" / "setup.sh"],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert result.returncode == 1
    assert "expected Python 3.11 or later, got Python 3.9.2" in result.stderr
