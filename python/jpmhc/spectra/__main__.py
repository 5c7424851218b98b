# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`python -m jpmhc.spectra` is the command `jpmhc-spectra`."""

import sys

from jpmhc.spectra.cli import main

sys.exit(main())
