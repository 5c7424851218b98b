# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of jpmhc.training, jpmhc.interrupts and jpmhc.files."""

import errno
import io
import json
import math
import os
import signal
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jpmhc.errors import ConfigError, DataError, OutputError
from jpmhc.files import replacing
from jpmhc.interrupts import postponed_interrupts
from jpmhc.training import (
    GracefulInterrupt,
    MetricsWriter,
    Progress,
    Schedule,
    read_metrics,
    write_summary,
)

# Learning rate.


def test_the_warm_up_rises_linearly_to_the_peak():
    schedule = Schedule(2.0, warmup=4)
    assert [schedule(step) for step in range(6)] == [0.5, 1.0, 1.5, 2.0, 2.0, 2.0]


def test_the_cosine_falls_from_peak_to_floor():
    schedule = Schedule(1.0, warmup=10, total=110, decay="cosine", floor=0.1)
    assert schedule(9) == schedule(10) == 1.0
    assert schedule(60) == pytest.approx(0.55)
    assert schedule(110) == schedule(1000) == pytest.approx(0.1)
    rates = [schedule(step) for step in range(10, 111)]
    assert rates == sorted(rates, reverse=True)


def test_the_steps_are_those_of_the_paper_by_default():
    schedule = Schedule(1.0, total=100, decay="step")
    rates = [schedule(step) for step in (0, 79, 80, 89, 90, 200)]
    assert rates == [1.0, 1.0, 0.316, 0.316, 0.1, 0.1]


@given(
    st.floats(0, 1e3),
    st.integers(0, 50),
    st.integers(51, 300),
    st.sampled_from(["constant", "cosine", "step"]),
    st.integers(0, 400),
)
def test_no_rate_is_negative_or_above_the_peak(peak, warmup, total, decay, step):
    rate = Schedule(peak, warmup, total, decay)(step)
    assert 0 <= rate <= peak


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"peak": math.nan}, "learning rate: .*got nan"),
        ({"peak": math.inf}, "learning rate"),
        ({"peak": -1.0}, "learning rate"),
        ({"peak": 1.0, "warmup": -1}, "warmup"),
        ({"peak": 1.0, "decay": "cosin"}, "unknown decay.*did you mean 'cosine'"),
        ({"peak": 1.0, "decay": "cosine"}, "total: .*got None"),
        ({"peak": 1.0, "decay": "step", "warmup": 5, "total": 5}, "total: .*the 5 steps.*got 5"),
        ({"peak": 1.0, "floor": 2.0}, "floor"),
        ({"peak": 1.0, "milestones": ((0.9, 0.1), (0.8, 0.3))}, "milestones"),
        ({"peak": 1.0, "milestones": ((0.9, 1.1),)}, "milestones"),
    ],
)
def test_bad_schedules_are_typed_errors(options, message):
    with pytest.raises(ConfigError, match=message):
        Schedule(**options)


def test_a_negative_step_is_an_error():
    with pytest.raises(ConfigError, match="step"):
        Schedule(1.0)(-1)


# Progress.


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_plain_lines_where_there_is_no_terminal():
    stream, clock = io.StringIO(), Clock()
    with Progress(100, tokens_per_step=500, stream=stream, clock=clock) as progress:
        for step in range(1, 101):
            clock.now += 0.5
            progress.update(step, loss=1 / step)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "1/100  loss 1  1k tokens/s  0:50 left"
    assert lines[1] == "21/100  loss 0.04762  1k tokens/s  0:40 left"
    assert lines[-1] == "100/100  loss 0.01  1k tokens/s  took 0:50"
    assert len(lines) == 6  # every ten seconds, and the last
    assert "\r" not in stream.getvalue()


def test_a_bar_on_a_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    stream, clock = Terminal(), Clock()
    with Progress(4, stream=stream, clock=clock) as progress:
        for step in (1, 2):
            clock.now += 60
            progress.update(step, loss=2.5)
    first, second = stream.getvalue().split("\r")[1:]
    assert first.startswith("[#######.......................]  1/4  loss 2.5  3:00 left")
    assert second.startswith("[###############...............]  2/4  loss 2.5  2:00 left")
    assert second.endswith("\n")


def test_a_bar_never_wraps(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    stream, clock = Terminal(), Clock()
    progress = Progress(1000000, stream=stream, clock=clock)
    clock.now += 1
    progress.update(123456, loss=1.23456789, accuracy=0.5)
    line = stream.getvalue().removeprefix("\r").removesuffix("\x1b[K")
    assert len(line) == 19


def test_messages_stand_above_the_bar():
    stream = Terminal()
    progress = Progress(4, stream=stream, clock=Clock())
    progress.update(1, loss=1.0)
    progress.log("saved")
    assert "\r\x1b[Ksaved\n\r" in stream.getvalue()
    plain = io.StringIO()
    Progress(4, stream=plain).log("saved")
    assert plain.getvalue() == "saved\n"


def test_speed_and_time_left_of_a_resumed_run_count_from_where_it_began():
    stream, clock = io.StringIO(), Clock()
    progress = Progress(100, start=90, tokens_per_step=10, stream=stream, clock=clock)
    assert progress.tokens_per_second is None
    clock.now += 3600
    progress.update(95)
    assert stream.getvalue() == "95/100  0.0139 tokens/s  1:00:00 left\n"


def test_large_speeds_have_units():
    stream, clock = io.StringIO(), Clock()
    progress = Progress(10, tokens_per_step=2_345_000, stream=stream, clock=clock)
    clock.now += 1
    progress.update(1)
    assert "2.35M tokens/s" in stream.getvalue() or "2.34M tokens/s" in stream.getvalue()


def test_a_run_has_at_least_one_step():
    with pytest.raises(ConfigError, match="total"):
        Progress(0)


# Metrics.


numbers = st.floats() | st.integers(-(2**60), 2**60)
plain_values = numbers | st.booleans() | st.none()
records = st.lists(
    st.dictionaries(
        st.sampled_from("abcd"),
        plain_values | st.lists(numbers) | st.dictionaries(st.text(), numbers),
        max_size=3,
    ),
    max_size=5,
)


def same(left, right):
    """Equality that takes NaN as equal to itself."""
    return repr(left) == repr(right)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(records)
def test_what_is_written_is_read(tmp_path, values):
    path = tmp_path / "metrics.jsonl"
    with MetricsWriter(path) as writer:
        for step, record in enumerate(values):
            writer.write(step, **record)
    expected = [{"step": step, **record} for step, record in enumerate(values)]
    assert same(read_metrics(path), expected)


def test_every_line_is_json_and_the_first_says_the_version(tmp_path):
    path = tmp_path / "m"
    with MetricsWriter(path) as writer:
        writer.write(1, loss=np.float32(math.nan), speed=np.array([1, 2]))
        first, second = path.read_text().splitlines()  # before it is closed
    assert json.loads(first) == {"format": "jpmhc-metrics", "version": 1}
    assert json.loads(second) == {"step": 1, "loss": "nan", "speed": [1, 2]}


def test_resuming_drops_what_will_be_made_again(tmp_path):
    path = tmp_path / "m"
    with MetricsWriter(path) as writer:
        for step in range(1, 6):
            writer.write(step, loss=step)
    with path.open("a") as file:
        file.write('{"step": 6, "lo')  # cut off by a crash
    with MetricsWriter(path, resume_at=3) as writer:
        writer.write(4, loss=40)
    assert [(r["step"], r["loss"]) for r in read_metrics(path)] == [(1, 1), (2, 2), (3, 3), (4, 40)]


def test_without_resuming_the_file_begins_anew(tmp_path):
    path = tmp_path / "m"
    for _ in range(2):
        with MetricsWriter(path) as writer:
            writer.write(1)
    assert read_metrics(path) == [{"step": 1}]
    with MetricsWriter(tmp_path / "new", resume_at=7):
        pass
    assert read_metrics(tmp_path / "new") == []


def test_a_torn_last_line_is_left_out(tmp_path):
    path = tmp_path / "m"
    with MetricsWriter(path) as writer:
        writer.write(1)
        writer.write(2)
    path.write_bytes(path.read_bytes()[:-3])
    assert read_metrics(path) == [{"step": 1}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a file of metrics"),
        (b'{"loss": 1}\n', "expected format 'jpmhc-metrics', got None"),
        (b'{"format": "jpmhc-metrics", "version": 9}\n', "version: expected 1, got 9"),
        (b'{"format": "jpmhc-metrics", "version": 1}\nx\n', "m:2: not a line of metrics"),
        (b'{"format": "jpmhc-metrics", "version": 1}\n[]\n', "m:2: .*an object"),
        (b'{"format": "jpmhc-metrics", "version": 1}\n{"loss": 1}\n', "m:2: .*without a step"),
        (b"\xff\xfe\n", "m:1: not a line of metrics"),
    ],
)
def test_foreign_metrics_are_errors_and_stay_as_they_are(tmp_path, content, message):
    path = tmp_path / "m"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        MetricsWriter(path, resume_at=1)
    assert path.read_bytes() == content


def test_metrics_that_cannot_be_read_or_written_are_typed_errors(tmp_path):
    with pytest.raises(DataError, match="No such file"):
        read_metrics(tmp_path / "none")
    with pytest.raises(OutputError, match="No such file"):
        MetricsWriter(tmp_path / "none" / "m")
    writer = MetricsWriter(tmp_path / "m")
    with pytest.raises(OutputError, match="JSON"):
        writer.write(1, f=print)
    writer.close()
    writer.close()
    with pytest.raises(OutputError, match="closed"):
        writer.write(1)


@pytest.mark.parametrize("short", [True, False])
def test_a_full_disk_leaves_whole_lines(tmp_path, monkeypatch, short):
    path = tmp_path / "m"
    write = os.write

    def full(descriptor, line):
        if short:
            return write(descriptor, line[:4])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with MetricsWriter(path) as writer:
        writer.write(1)
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            with pytest.raises(OutputError, match="No space left"):
                writer.write(2)
        writer.write(3)
    assert [record["step"] for record in read_metrics(path)] == [1, 3]


def test_the_summary_is_json_with_a_version(tmp_path):
    path = tmp_path / "summary.json"
    write_summary(path, accuracy=np.float32(0.5), loss=math.inf, baselines={"copy": 0.25})
    assert json.loads(path.read_text()) == {
        "format": "jpmhc-summary",
        "version": 1,
        "accuracy": 0.5,
        "loss": "inf",
        "baselines": {"copy": 0.25},
    }
    with pytest.raises(OutputError, match="JSON"):
        write_summary(path, f=print)
    assert json.loads(path.read_text())["accuracy"] == 0.5
    with pytest.raises(OutputError, match="No such file"):
        write_summary(tmp_path / "none" / "s")


# Interrupts.


def test_the_first_interrupt_asks_and_the_second_raises():
    notices = []
    before = signal.getsignal(signal.SIGINT)
    with GracefulInterrupt(lambda: notices.append("once")) as interrupt:
        assert not interrupt.requested
        signal.raise_signal(signal.SIGINT)
        assert interrupt.requested and notices == ["once"]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert notices == ["once"]
    assert signal.getsignal(signal.SIGINT) is before


def test_the_handler_is_put_back_after_an_exception():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError), GracefulInterrupt():
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGINT) is before


def test_outside_the_main_thread_nothing_is_changed():
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def work():
        with GracefulInterrupt() as interrupt, postponed_interrupts():
            seen.append((interrupt.requested, signal.getsignal(signal.SIGINT) is before))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(False, True)]


def test_a_postponed_interrupt_comes_at_the_end_of_the_block():
    done = False
    with pytest.raises(KeyboardInterrupt), postponed_interrupts():
        signal.raise_signal(signal.SIGINT)
        done = True
    assert done


def test_a_postponed_interrupt_reaches_the_handler_around():
    with GracefulInterrupt() as interrupt:
        with postponed_interrupts():
            signal.raise_signal(signal.SIGINT)
            assert not interrupt.requested
        assert interrupt.requested


# Files.


def test_a_file_appears_whole_or_stays(tmp_path):
    path = tmp_path / "f"
    with replacing(path) as file:
        file.write(b"old")
        assert not path.exists()
    with pytest.raises(ZeroDivisionError), replacing(path) as file:
        file.write(b"new")
        raise ZeroDivisionError
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]
