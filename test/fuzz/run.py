# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the fuzzer of the compiler on the programs of the tests and those in test/fuzz/corpus.

python test/fuzz/run.py --build build-asan [--seconds 600]

What it finds is left in the build's folder; mend it, then add the smallest input to the corpus,
which every run replays first.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "test"))

from sanitizers import sanitizer_environment  # noqa: E402

TIMEOUT = 2  # seconds that an input may take, sanitizers aside


def seeds(folder: pathlib.Path) -> int:
    """Writes every program of the lit tests, one a file; returns their number."""
    count = 0
    for path in sorted((ROOT / "test" / "lit").rglob("*.mlir")):
        for part in re.split(r"^// -----.*$", path.read_text(), flags=re.MULTILINE):
            code = [line for line in part.splitlines() if not line.lstrip().startswith("//")]
            (folder / f"{count:04d}.mlir").write_text("\n".join(code))
            count += 1
    return count


def dictionary(folder: pathlib.Path, path: pathlib.Path) -> None:
    """Writes the words that the seeds are made of, for libFuzzer to insert."""
    words = set()
    for seed in folder.iterdir():
        words.update(re.findall(r"[a-z_]+\.[a-z_.]+|tensor<[^>]*>|array<[^>]*>", seed.read_text()))
    path.write_text("\n".join(f'"{word}"' for word in sorted(words) if '"' not in word))


def main() -> int:
    """Returns the fuzzer's exit code: 0 unless something crashed or took too long."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-asan")
    parser.add_argument("--seconds", type=int, default=600)
    options = parser.parse_args()
    fuzzer = options.build.resolve() / "bin" / "OptFuzzer"
    if not fuzzer.exists():
        sys.exit(f"expected {fuzzer}, found none; build with JPMHC_SANITIZER=address")
    corpus = ROOT / "test" / "fuzz" / "corpus" / "programs"
    findings = options.build.resolve() / "fuzz"
    findings.mkdir(exist_ok=True)
    environment = sanitizer_environment("address")
    # libFuzzer has libstdc++ loaded before the sanitizer, which wants to be first.
    environment["LD_PRELOAD"] = environment["JPMHC_TEST_PRELOAD"]
    with tempfile.TemporaryDirectory() as scratch:
        programs, new = pathlib.Path(scratch) / "seeds", pathlib.Path(scratch) / "new"
        programs.mkdir()
        new.mkdir()
        print(f"{seeds(programs)} programs", flush=True)
        words = pathlib.Path(scratch) / "words"
        dictionary(programs, words)
        command = [
            str(fuzzer),
            f"-max_total_time={options.seconds}",
            f"-timeout={10 * TIMEOUT}",
            f"-dict={words}",
            "-only_ascii=1",
            "-max_len=8192",
            "-rss_limit_mb=6000",
            "-print_final_stats=1",
            f"-artifact_prefix={findings}/",
            *(str(folder) for folder in (new, corpus, programs) if folder.exists()),
        ]
        return subprocess.run(command, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
