# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of jpmhc.checkpoint: round trips, everything that may be wrong, and no half writes."""

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import zlib
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

import jpmhc.checkpoint as checkpoint
from jpmhc.errors import CheckpointError

DTYPES = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]
DTYPES = [np.dtype(name) for name in DTYPES] + [np.dtype(ml_dtypes.bfloat16)]


def some_sections():
    rng = np.random.default_rng(0)
    return {
        "model": {
            "block.weight": rng.standard_normal((4, 3)).astype(np.float32),
            "block.gain": np.ones(3, dtype=np.float32),
            "half": rng.standard_normal(5).astype(ml_dtypes.bfloat16),
        },
        "optimizer": {"block.weight.m": np.zeros((4, 3), np.float32), "count": np.array(3)},
        "carry": {},
    }


def blanks(sections):
    return {
        section: {name: np.zeros_like(array) for name, array in named.items()}
        for section, named in sections.items()
    }


def assert_same(left, right):
    assert left.keys() == right.keys()
    for section in left:
        assert left[section].keys() == right[section].keys()
        for name, array in left[section].items():
            other = right[section][name]
            assert array.dtype.newbyteorder("=") == other.dtype.newbyteorder("=")
            assert array.shape == other.shape
            little = array.dtype.newbyteorder("<")
            assert array.astype(little).tobytes() == other.astype(little).tobytes()


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "c.safetensors"
    checkpoint.save(path, some_sections(), step=12, rng_state={"seed": 5}, config={"d": 96})
    return path


# Round trips.


any_array = st.sampled_from(DTYPES[:-1]).flatmap(
    lambda dtype: arrays(dtype, array_shapes(min_dims=0, min_side=0, max_side=4))
)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.dictionaries(
        names.filter(lambda name: "/" not in name),
        st.dictionaries(names, any_array, max_size=4),
        max_size=3,
    ),
    st.integers(0, 2**40),
)
def test_what_is_saved_is_read_bit_by_bit(tmp_path, sections, step):
    path = tmp_path / "c"
    checkpoint.save(path, sections, step=step)
    stored, metadata = checkpoint.read(path)
    assert_same(stored, sections)
    assert metadata.step == step
    targets = blanks(sections)
    assert checkpoint.load(path, targets) == metadata
    assert_same(targets, sections)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_is_stored(tmp_path, dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    checkpoint.save(tmp_path / "c", {"s": {"x": array}})
    stored, _ = checkpoint.read(tmp_path / "c")
    assert_same(stored, {"s": {"x": array}})


def test_nan_and_infinity_keep_their_bits(tmp_path):
    bits = np.array([0x7FC00001, 0xFFC12345, 0x7F800000, 0xFF800000, 0x80000000], np.uint32)
    checkpoint.save(tmp_path / "c", {"s": {"x": bits.view(np.float32)}})
    stored, _ = checkpoint.read(tmp_path / "c")
    np.testing.assert_array_equal(stored["s"]["x"].view(np.uint32), bits)


def test_layout_and_byte_order_of_the_arrays_do_not_matter(tmp_path):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    given_layouts = {"t": array.T, "s": array[::2, ::-1], "b": array.astype(">f4")}
    checkpoint.save(tmp_path / "c", {"x": given_layouts})
    targets = {"t": np.zeros((3, 4), np.float32).T, "s": np.zeros((4, 8), np.float32)[::2, ::2]}
    targets["b"] = np.zeros((3, 4), ">f4")
    checkpoint.load(tmp_path / "c", {"x": targets})
    for name, target in targets.items():
        np.testing.assert_array_equal(target, given_layouts[name])


def test_metadata_comes_back(saved):
    metadata = checkpoint.read_metadata(saved)
    assert metadata == checkpoint.Metadata(12, {"seed": 5}, {"d": 96}, 1)
    assert checkpoint.read(saved)[1] == metadata


def test_the_state_of_numpy_generators_survives(tmp_path):
    generator = np.random.Philox(3)
    generator.random_raw(5)
    checkpoint.save(tmp_path / "c", {}, rng_state=generator.state)
    resumed = np.random.Philox()
    resumed.state = checkpoint.read_metadata(tmp_path / "c").rng_state
    np.testing.assert_array_equal(resumed.random_raw(9), generator.random_raw(9))


def test_sections_that_are_not_asked_for_are_skipped(saved):
    targets = {"model": blanks(some_sections())["model"]}
    checkpoint.load(saved, targets)
    assert_same(targets, {"model": some_sections()["model"]})


def test_other_readers_of_safetensors_can_read_it(tmp_path):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    checkpoint.save(tmp_path / "c", {"model": {"w": array, "n": np.array(2, np.int64)}})
    stored = safetensors.numpy.load_file(tmp_path / "c")
    np.testing.assert_array_equal(stored["model/w"], array)
    assert stored["model/n"] == 2


def test_arrays_lie_aligned_in_the_file(tmp_path):
    odd = {"a": np.ones(3, np.int8), "b": np.ones(3, np.float64), "c": np.ones(1, np.float16)}
    checkpoint.save(tmp_path / "c", {"s": odd})
    data = (tmp_path / "c").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    for name, array in odd.items():
        assert (8 + size + header[f"s/{name}"]["data_offsets"][0]) % array.itemsize == 0


# What cannot be stored.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sections": {"a/b": {}}}, "bad section name 'a/b'"),
        ({"sections": {"": {}}}, "bad section name ''"),
        ({"sections": {"s": {"x": np.zeros(2, complex)}}}, "s/x .* got complex128"),
        ({"sections": {"s": {"x": np.array([object()])}}}, "s/x .* got object"),
        ({"sections": {}, "step": -1}, "step: expected an integer ≥ 0, got -1"),
        ({"sections": {}, "config": {"f": print}}, "JSON"),
    ],
)
def test_what_cannot_be_stored_is_an_error_and_leaves_the_old_file(saved, arguments, message):
    before = saved.read_bytes()
    with pytest.raises(CheckpointError, match=message):
        checkpoint.save(saved, **arguments)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


# What does not fit.


def changed(section, name, array=None):
    """Targets of which one is replaced, or left out."""
    targets = blanks(some_sections())
    if array is None:
        del targets[section][name]
    else:
        targets[section][name] = array
    return targets


def read_only(shape):
    array = np.zeros(shape, np.float32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (changed("model", "block.gain"), "model/block.gain is only in the file"),
        (changed("model", "extra", np.zeros(1)), "model/extra is not in the file"),
        (
            changed("model", "block.gain", np.zeros(4, np.float32)),
            r"model/block.gain: expected shape \[4\], got \[3\]",
        ),
        (
            changed("model", "block.gain", np.zeros(3, np.float64)),
            "model/block.gain: expected dtype float64, got float32",
        ),
        (
            changed("model", "half", np.zeros(5, np.float16)),
            "model/half: expected dtype float16, got bfloat16",
        ),
        (changed("model", "block.gain", read_only(3)), "expected a writable array"),
        (changed("optimizer", "count", 3), "expected an array to fill, got int"),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_is_changed(saved, targets, message):
    with pytest.raises(CheckpointError, match=message) as caught:
        checkpoint.load(saved, targets)
    assert caught.value.where == saved
    assert not any(
        np.asarray(array).astype(bool).any()
        for name, array in targets["model"].items()
        if name != "extra"
    )


def test_a_renamed_array_is_suggested(saved):
    targets = changed("model", "block.wieght", np.zeros((4, 3), np.float32))
    del targets["model"]["block.weight"]
    with pytest.raises(CheckpointError, match="did you mean model/block.weight"):
        checkpoint.load(saved, targets)


def test_an_unknown_section_is_suggested(saved):
    with pytest.raises(CheckpointError, match="unknown section.*'modle'.*mean 'model'"):
        checkpoint.load(saved, {"modle": {}})


def test_many_misfits_are_counted(tmp_path):
    checkpoint.save(tmp_path / "c", {"s": {f"x{k}": np.zeros(1) for k in range(20)}})
    with pytest.raises(CheckpointError, match="and 12 more"):
        checkpoint.load(tmp_path / "c", {"s": {}})


# Files that are not right.


def test_a_missing_file_is_an_error(tmp_path):
    for read in (checkpoint.read, checkpoint.read_metadata):
        with pytest.raises(CheckpointError, match="No such file"):
            read(tmp_path / "none")
    with pytest.raises(CheckpointError, match="s a directory"):
        checkpoint.read(tmp_path)


def test_every_truncation_is_an_error(saved):
    data = saved.read_bytes()
    for size in range(len(data)):
        saved.write_bytes(data[:size])
        with pytest.raises(CheckpointError):
            checkpoint.load(saved, blanks(some_sections()))


def test_trailing_bytes_are_an_error(saved):
    saved.write_bytes(saved.read_bytes() + b"x")
    with pytest.raises(CheckpointError):
        checkpoint.read(saved)


def test_every_flipped_bit_is_an_error(saved):
    data = bytearray(saved.read_bytes())
    for position in range(len(data)):
        bit = 1 << (position % 8)
        data[position] ^= bit
        saved.write_bytes(data)
        with pytest.raises(CheckpointError):
            checkpoint.read(saved)
        data[position] ^= bit


@pytest.mark.parametrize(
    "data", [b"", b"abc", b"PK\x03\x04" * 50, bytes(64), b"\x02" + bytes(7) + b"[]"]
)
def test_foreign_bytes_are_an_error(tmp_path, data):
    (tmp_path / "c").write_bytes(data)
    for read in (checkpoint.read, checkpoint.read_metadata):
        with pytest.raises(CheckpointError, match="safetensors"):
            read(tmp_path / "c")


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_a_safetensors_file_of_others_is_an_error(tmp_path, metadata):
    safetensors.numpy.save_file({"w": np.zeros(2)}, tmp_path / "c", metadata=metadata)
    with pytest.raises(CheckpointError, match="not a checkpoint of jpmhc"):
        checkpoint.read(tmp_path / "c")


def foreign(path, *, version="1", text="{}", tensors=None):
    metadata = {"format": "jpmhc-checkpoint", "format_version": version, "json": text}
    metadata["json_crc32"] = str(zlib.crc32(text.encode()))
    safetensors.numpy.save_file(tensors or {}, path, metadata=metadata)


def test_another_format_version_is_an_error(tmp_path):
    foreign(tmp_path / "c", version="2")
    with pytest.raises(CheckpointError, match="format version: expected 1, got 2"):
        checkpoint.read(tmp_path / "c")


def test_metadata_without_its_entries_is_an_error(tmp_path):
    foreign(tmp_path / "c")
    with pytest.raises(CheckpointError, match="incomplete metadata: got no checksums"):
        checkpoint.read(tmp_path / "c")


def test_arrays_the_metadata_does_not_know_are_an_error(tmp_path):
    text = json.dumps({"step": 0, "rng_state": {}, "config": {}, "checksums": {}})
    foreign(tmp_path / "c", text=text, tensors={"s/x": np.zeros(1)})
    with pytest.raises(CheckpointError, match="names differ.*s/x"):
        checkpoint.read(tmp_path / "c")


# No half writes.


def test_a_failing_write_leaves_the_old_checkpoint(saved, monkeypatch):
    before = saved.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match="No space left on device"):
        checkpoint.save(saved, some_sections(), step=99)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def run_python(code, *arguments, **options):
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def test_a_full_disk_leaves_the_old_checkpoint(saved):
    """The system refuses to let a file grow, in a process of its own."""
    before = saved.read_bytes()
    code = """
        import resource, signal, sys
        import numpy as np
        from jpmhc import checkpoint
        from jpmhc.errors import CheckpointError
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            checkpoint.save(sys.argv[1], {"s": {"x": np.ones(1_000_000)}})
        except CheckpointError as error:
            print(error)
            sys.exit(42)
    """
    result = run_python(code, saved)
    assert result.returncode == 42, result.stderr
    assert "File too large" in result.stdout
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_a_missing_or_read_only_folder_is_an_error(tmp_path):
    with pytest.raises(CheckpointError, match="No such file or directory"):
        checkpoint.save(tmp_path / "none" / "c", {})


def test_an_interrupt_while_writing_leaves_the_old_checkpoint(saved, monkeypatch):
    before = saved.read_bytes()

    def interrupted(descriptor):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save(saved, some_sections(), step=99)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_an_interrupt_while_loading_fills_every_array_first(saved, monkeypatch):
    copy = np.copyto

    def interrupted(target, source):
        signal.raise_signal(signal.SIGINT)
        copy(target, source)

    monkeypatch.setattr(np, "copyto", interrupted)
    targets = blanks(some_sections())
    with pytest.raises(KeyboardInterrupt):
        checkpoint.load(saved, targets)
    assert_same(targets, some_sections())


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals between processes")
def test_a_killed_writer_leaves_a_good_checkpoint(tmp_path):
    """Kill a process that saves without end; whatever is there by name must be whole."""
    path = tmp_path / "c"
    code = """
        import sys
        import numpy as np
        from jpmhc import checkpoint
        step = 0
        while True:
            step += 1
            array = np.full(300_000, step, np.float32)
            checkpoint.save(sys.argv[1], {"s": {"x": array}}, step=step)
            print(step, flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(path)]
    for kind in (signal.SIGINT, signal.SIGKILL):
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as writer:
            for _ in range(3):
                assert writer.stdout.readline()
            writer.send_signal(kind)
            writer.stdout.close()
        stored, metadata = checkpoint.read(path)
        assert metadata.step >= 3
        assert (stored["s"]["x"] == metadata.step).all()


def test_the_link_stays_a_link(saved):
    link = saved.with_name("link")
    link.symlink_to(saved.name)
    checkpoint.save(link, {}, step=3)
    assert link.is_symlink()
    assert checkpoint.read_metadata(saved).step == 3


def test_the_file_has_ordinary_permissions(saved):
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(Path(saved).stat().st_mode) == 0o666 & ~umask
