# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What every test may rely on."""

import signal

# A shell that starts this in the background has Ctrl-C ignored, and Python leaves it so.
signal.signal(signal.SIGINT, signal.default_int_handler)
