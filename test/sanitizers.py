# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What programs built with a sanitizer need of their environment."""

from __future__ import annotations

import os
import pathlib
import sys


def sanitizer_environment(sanitizer: str | None) -> dict[str, str]:
    """Settings under which LLVM's own uninstrumented libraries raise no false alarm."""
    environment = dict(os.environ)
    if sanitizer == "address":
        # Containers and arenas cross into LLVM's libraries, which annotate neither; the
        # interpreter leaks by design.
        environment["ASAN_OPTIONS"] = (
            "detect_container_overflow=0:allow_user_poisoning=0:"
            "detect_leaks=0:detect_odr_violation=0:"
            "allocator_may_return_null=1"  # tests ask for more memory than there is
        )
        environment["UBSAN_OPTIONS"] = "print_stacktrace=1"
        environment["JPMHC_SANITIZE_KERNELS"] = "address"
    elif sanitizer == "thread":
        environment["TSAN_OPTIONS"] = "ignore_noninstrumented_modules=1"
    if sanitizer:
        runtime = {"address": "libclang_rt.asan-x86_64.so", "thread": "libclang_rt.tsan-x86_64.so"}
        found = sorted(
            pathlib.Path("/usr/lib/llvm-22/lib/clang").glob(f"*/lib/linux/{runtime[sanitizer]}")
        )
        if not found:
            sys.exit(f"expected {runtime[sanitizer]} of libclang-rt-22-dev, found none")
        environment["LD_LIBRARY_PATH"] = str(found[-1].parent)
        environment["JPMHC_TEST_PRELOAD"] = str(found[-1])
    return environment
