#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Installs what the build needs: Debian packages (as root; otherwise prints the line to run), Python packages into a
# virtual environment inside the repository. Writes nothing else.
set -eu

PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}
PACKAGES="llvm-22-dev libmlir-22-dev mlir-22-tools llvm-22-tools clang-22 clang-format-22 lld-22 libclang-rt-22-dev
cmake ninja-build libgtest-dev libeigen3-dev"

fail() {
  echo "setup: $*" >&2
  exit 1
}

command -v "$PYTHON" >/dev/null || fail "expected Python 3.11 or later as '$PYTHON', found none; set PYTHON"
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  fail "expected Python 3.11 or later, got $("$PYTHON" -V 2>&1); set PYTHON"
"$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || PACKAGES="$PACKAGES python3-venv"
header=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_paths()["include"] + "/Python.h")')
[ -e "$header" ] || PACKAGES="$PACKAGES python3-dev"

missing=""
for package in $PACKAGES; do
  status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
  [ "$status" = "install ok installed" ] || missing="$missing $package"
done
if [ -n "$missing" ]; then
  if [ "$(id -u)" != 0 ]; then
    echo "setup: these Debian packages are missing; run this line, then try again:" >&2
    echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends$missing" >&2
    exit 1
  fi
  echo "setup: installing$missing"
  log=$(mktemp)
  trap 'rm -f "$log"' EXIT
  (apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing) >"$log" 2>&1 ||
    { tail -n 20 "$log" >&2; fail "apt-get failed"; }
fi

[ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
echo "setup: Python packages into $VENV"
"$VENV/bin/python" -m pip install --quiet --no-cache-dir --disable-pip-version-check -r python/requirements.txt

# An assembler for PTX: the machine's, else the one that a Python package carries. Without any, PTX is still written.
if [ -z "${JPMHC_PTXAS:-}" ] && ! command -v ptxas >/dev/null && [ ! -x "${CUDA_HOME:-/usr/local/cuda}/bin/ptxas" ]; then
  "$VENV/bin/python" -m pip install --quiet --no-cache-dir --disable-pip-version-check nvidia-cuda-nvcc==13.0.88 ||
    echo "setup: no ptxas found or installed; PTX will be written but not assembled"
fi
