# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ruff: noqa: F821 (lit defines `config` for this file)
"""lit configuration: every .mlir file below is a test; tools come from the build and from LLVM."""

import os

import lit.formats

config.name = "jpmhc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.jpmhc_build, "test", "lit")
config.environment["PATH"] = os.pathsep.join(
    [os.path.join(config.jpmhc_build, "bin"), config.llvm_bin, os.environ["PATH"]]
)
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "JPMHC_PTXAS", "CUDA_HOME"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
