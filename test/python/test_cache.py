# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiled code kept on disk: warm starts, damaged entries, races, folders that refuse.

`JPMHC_TEST_LONG=1` (`make check-long`) repeats the last tests as often as the release asks for.
"""

import gc
import os
import pathlib
import resource
import subprocess
import sys
import threading

import numpy as np
import pytest

import jpmhc
from jpmhc import nn, optim

LONG = bool(os.environ.get("JPMHC_TEST_LONG"))
X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("JPMHC_CACHE_DIR", str(folder))
    return folder


def compiled(scale=2.0, shape=(4, 6)):
    def scaled(x):
        return jpmhc.exp(x) * scale + (x * x).sum(axis=1, keepdims=True)

    return jpmhc.compile(scaled, jpmhc.spec(shape))


def expected(scale=2.0):
    return np.exp(X) * np.float32(scale) + (X * X).sum(1, keepdims=True)


def check(function, scale=2.0):
    # A few ulp of values up to 8.
    np.testing.assert_allclose(function(X), expected(scale), rtol=1e-5)


def entries(folder):
    return sorted(folder.iterdir())


class Block(nn.Module):
    """A hyper-connection around a linear map, applied `depth` times with the same weights."""

    def __init__(self, depth):
        self.block = nn.HyperConnection(nn.Linear(16, 16), dim=16, n=4, manifold="identity")
        self.depth = depth

    @jpmhc.function
    def once(self, streams):
        return self.block(streams)

    def loss(self, streams):
        for _ in range(self.depth):
            streams = self.once(streams)
        return (streams * streams).mean()


def training_step(depth=1):
    model = Block(depth).init(0)
    batch = np.ones((8, 4, 16), np.float32)
    return jpmhc.TrainStep(model, model.loss, optim.AdamW(lr=0.01), batch)


# ---- warm starts ----


def test_second_compilation_runs_no_pass(cache):
    first = training_step().compilation
    assert not first["from_cache"] and first["compiled_kernels"] > 5
    names = entries(cache)
    second = training_step().compilation
    assert second["from_cache"] and second["compiled_kernels"] == 0
    assert second["lowering_seconds"] == 0 and second["code_seconds"] == 0
    assert entries(cache) == names


def test_changed_program_compiles_changed_kernels_only(cache):
    training_step()
    text = "kept kernels"
    model = Block(1).init(0)
    batch = np.ones((8, 4, 16), np.float32)
    other = jpmhc.TrainStep(model, model.loss, optim.AdamAtan2(lr=0.01), batch).compilation
    assert not other["from_cache"], text
    assert 0 < other["compiled_kernels"] < 5


def test_users_line_is_part_of_the_key(cache):
    def first(x):
        return jpmhc.exp(x)

    def second(x):
        return jpmhc.exp(x)

    jpmhc.compile(first, X)
    second.__name__ = "first"
    moved = jpmhc.compile(second, X)
    # Launches name the line; the kernels do not.
    assert not moved.compilation["from_cache"] and moved.compilation["compiled_kernels"] == 0


def test_cache_can_be_off(monkeypatch):
    monkeypatch.setenv("JPMHC_CACHE_DIR", "")
    for _ in range(2):
        function = compiled()
        assert not function.compilation["from_cache"]
        check(function)


def test_settings_are_part_of_the_key(cache, monkeypatch):
    compiled()
    before = {path.name.partition("-")[0] for path in entries(cache)}
    code = "from test_cache import compiled; print(compiled().compilation['from_cache'])"
    assert run(code).stdout == "True\n"
    # Entries are named by content and settings: the same content again under other settings.
    assert before == {path.name.partition("-")[0] for path in entries(cache)}


def run(code, **environment):
    command = [sys.executable, "-c", code]
    folder = str(pathlib.Path(__file__).parent)
    path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


def test_explanations(cache):
    code = "from test_cache import compiled; compiled()"
    said = run(code, JPMHC_LOG="explain").stderr
    assert "compiling the program: it was not compiled before" in said
    assert run(code, JPMHC_LOG="explain").stderr == ""
    damage(cache)
    assert "its entry is truncated, changed or another's" in run(code, JPMHC_LOG="explain").stderr


# ---- entries that are not what they should be ----


def damage(folder, change=lambda data: data[: len(data) // 2]):
    for path in entries(folder):
        path.write_bytes(change(path.read_bytes()))


def flip(position):
    def change(data):
        place = int(position * (len(data) - 1))
        return data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :]

    return change


DAMAGE = {
    "truncated": lambda data: data[: len(data) // 2],
    "only a header": lambda data: data[:14],
    "empty": lambda data: b"",
    "a byte more": lambda data: data + b"\0",
    "foreign": lambda data: b"\x7fELF" + data,
    "first bit": flip(0.0),
    "a bit of the checksum": lambda data: data[:20] + bytes([data[20] ^ 1]) + data[21:],
    "a bit in the middle": flip(0.5),
    "last bit": flip(1.0),
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE)
def test_damaged_entry_is_rebuilt(cache, change):
    check(compiled())
    sound = {path.name: path.read_bytes() for path in entries(cache)}
    damage(cache, change)
    again = compiled()
    check(again)
    assert not again.compilation["from_cache"] and again.compilation["compiled_kernels"] > 0
    assert {path.name: path.read_bytes() for path in entries(cache)} == sound


def test_entry_under_another_name_is_not_loaded(cache):
    compiled(scale=2.0)
    contents = [path.read_bytes() for path in entries(cache)]
    compiled(scale=3.0)
    for path in entries(cache):
        path.write_bytes(max(contents, key=len))
    again = compiled(scale=3.0)
    check(again, scale=3.0)
    assert not again.compilation["from_cache"]


# ---- folders that refuse ----


def mount_small(folder):
    """A file system of 16 KiB on `folder`; False where that is not allowed."""
    command = ["mount", "-t", "tmpfs", "-o", "size=16k", "jpmhc-test", str(folder)]
    return os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0


TWICE = """
import test_cache
for scale in (2.0, 3.0):
    test_cache.check(test_cache.compiled(scale), scale)
"""


def test_folder_that_cannot_be_made_costs_speed_only(tmp_path):
    file = tmp_path / "file"
    file.touch()
    said = run(TWICE, JPMHC_CACHE_DIR=str(file / "cache")).stderr
    assert said.count("warning: cannot write the cache") == 1 and len(said.splitlines()) == 1


def test_read_only_folder_costs_speed_only(cache):
    code = "from test_cache import compiled; compiled(2.0)"
    run(code)
    names = entries(cache)
    cache.chmod(0o555)
    try:
        if os.access(cache, os.W_OK):  # root may write all the same
            pytest.skip("a user whom permissions bind")
        said = run(TWICE).stderr
    finally:
        cache.chmod(0o755)
    assert said.count("warning: cannot write the cache") == 1
    assert entries(cache) == names


def test_full_folder_costs_speed_only(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    if not mount_small(folder):
        pytest.skip("the right to mount a small file system")
    try:
        said = run(TWICE, JPMHC_CACHE_DIR=str(folder)).stderr
        left = [path.name for path in entries(folder) if "." in path.name]
    finally:
        subprocess.run(["umount", str(folder)], check=True)
    assert said.count("warning: cannot write the cache") == 1
    assert left == []  # no half of an entry


# ---- many at once ----


def test_processes_race_on_a_cold_cache(cache, tmp_path):
    code = """
import os, pathlib, time
import test_cache
ready, go = os.environ["RACE"].split(":")
pathlib.Path(ready, str(os.getpid())).touch()
while not os.path.exists(go):
    time.sleep(0.001)
function = test_cache.compiled()
print(function(test_cache.X).tobytes().hex())
"""
    ready, go = tmp_path / "ready", tmp_path / "go"
    ready.mkdir()
    folder = str(pathlib.Path(__file__).parent)
    path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "RACE": f"{ready}:{go}"}
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    while len(entries(ready)) < len(racers) and all(r.poll() is None for r in racers):
        threading.Event().wait(0.01)
    go.touch()
    said = [racer.communicate(timeout=120) for racer in racers]
    assert all(racer.returncode == 0 for racer in racers), said
    assert len({out for out, _ in said}) == 1 and not any(err for _, err in said)
    assert not [name for name in entries(cache) if "." in name.name]
    count = len(entries(cache))
    after = compiled()
    check(after)
    assert after.compilation["from_cache"] and len(entries(cache)) == count


def test_threads_compile_and_run_at_once(cache):
    failures = []

    def work(number):
        try:
            for turn in range(5 if LONG else 2):
                scale = float(number % 7 + turn)
                check(compiled(scale), scale)
        except BaseException as error:  # noqa: BLE001 - reported by the test below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def resident():
    """Bytes of this process in memory, garbage not counted."""
    gc.collect()
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_memory_does_not_grow_with_compilations(monkeypatch):
    monkeypatch.setenv("JPMHC_CACHE_DIR", "")
    count = 1000 if LONG else 30

    def several(times):
        for i in range(times):
            check(compiled(float(i)), float(i))

    several(count // 3)  # the allocator and LLVM's tables fill up
    growth = []
    for _ in range(3):
        before = resident()
        several(count)
        growth.append(resident() - before)
    # A compiled function holds some 100 KiB; a leak of each would be 3 MB (100 MB in the long run)
    # in every round, whereas the allocator takes a new arena now and then.
    assert min(growth) < (10e6 if LONG else 1e6), growth


# ---- weight tying ----


def test_depth_by_weight_tying_costs_no_kernels(monkeypatch, record_property):
    monkeypatch.setenv("JPMHC_CACHE_DIR", "")
    shallow, deep = training_step(2), training_step(4)
    few, many = (step.compilation["compiled_kernels"] for step in (shallow, deep))
    sizes = [len(step.print_ir("kernels")) for step in (shallow, deep)]
    seconds = [
        sum(step.compilation[key] for key in ("lowering_seconds", "code_seconds", "link_seconds"))
        for step in (shallow, deep)
    ]
    record_property("seconds", seconds)
    assert many <= 1.2 * few and sizes[1] <= 1.2 * sizes[0]
