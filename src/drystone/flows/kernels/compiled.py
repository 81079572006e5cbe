"""How every kernel is compiled, and the single-precision functions that LLVM can vectorise.

The library's ``exp`` and ``tanh`` are calls, and a loop with a call in it runs one element at a time. The
polynomials below are branch-free arithmetic, so a loop over a batch becomes vector instructions; they are
accurate to about two units in the last place of float32, which the tests check over the whole range.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np

__all__ = ["entry", "exp", "f32", "inlined", "kernel", "log", "soft_clip", "soft_clip_slope", "tanh"]

# Sums may be reordered and products fused, but NaN and infinity keep their meaning: divergence must be seen.
_FASTMATH = {"nsz", "arcp", "contract", "afn", "reassoc"}

# What Python and C would call a function through takes as long to compile as a small function itself.
_NO_WRAPPERS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

f32 = np.float32
i32 = np.int32

_SOURCES = sorted(Path(__file__).parent.glob("*.py"))
_DIGEST = hashlib.sha256(b"".join(source.read_bytes() for source in _SOURCES)).hexdigest()[:12]


def entry(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that Python calls, on its first call, with the machine code cached on disk.

    Numba checks only the file of the function itself to decide whether its cache is stale, not the files of the
    functions it calls. A digest of all kernels' sources in the name makes a change in any of them count.
    """
    function.__qualname__ = f"{function.__qualname__}_{_DIGEST}"
    return numba.njit(fastmath=_FASTMATH, nogil=True, error_model="numpy", cache=True)(function)


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that entries call; its machine code is part of theirs, and Python cannot call it.

    LLVM optimises a kernel once by itself and again with each kernel or entry that calls it, and so on upwards:
    those that make loops fast are kernels, and what only calls kernels is :func:`inlined`.
    """
    return numba.njit(fastmath=_FASTMATH, nogil=True, error_model="numpy", **_NO_WRAPPERS)(function)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function into its callers, before Numba infers types."""
    return numba.njit(fastmath=_FASTMATH, error_model="numpy", inline="always")(function)


@inlined
def exp(x):
    r"""Return :math:`e^x = 2^n e^r` with :math:`r = x - n \log 2 \in [-\frac12\log 2, \frac12\log 2]`.

    :math:`e^r` is Cephes' polynomial; :math:`2^n` is written straight into the exponent bits. The argument is
    held to ±87, where float32 ends.
    """
    x = f32(87.0) if x > f32(87.0) else x
    x = f32(-87.0) if x < f32(-87.0) else x
    n = np.floor(x * f32(1.44269504) + f32(0.5))
    # log 2 in two parts, so that n log 2 loses no digits.
    r = x - n * f32(0.693359375) + n * f32(2.12194440e-4)
    p = f32(1.9875691500e-4)
    p = p * r + f32(1.3981999507e-3)
    p = p * r + f32(8.3334519073e-3)
    p = p * r + f32(4.1665795894e-2)
    p = p * r + f32(1.6666665459e-1)
    p = p * r + f32(5.0000001201e-1)
    p = p * r * r + r + f32(1.0)
    return p * i32((i32(n) + i32(127)) << i32(23)).view(f32)


@inlined
def log(x):
    r"""Return :math:`\log x = e \log 2 + \log m`, :math:`m \in [\sqrt{1/2}, \sqrt 2)`, for normal positive x.

    Exponent and mantissa are read from the bits; :math:`\log m` is Cephes' polynomial in :math:`m - 1`.
    """
    bits = f32(x).view(i32)
    e = f32((bits >> i32(23)) - i32(126))
    m = i32((bits & i32(0x007FFFFF)) | i32(0x3F000000)).view(f32)
    low = m < f32(0.707106781)
    e = e - f32(1.0) if low else e
    m = (m + m if low else m) - f32(1.0)
    square = m * m
    p = f32(7.0376836292e-2)
    p = p * m - f32(1.1514610310e-1)
    p = p * m + f32(1.1676998740e-1)
    p = p * m - f32(1.2420140846e-1)
    p = p * m + f32(1.4249322787e-1)
    p = p * m - f32(1.6668057665e-1)
    p = p * m + f32(2.0000714765e-1)
    p = p * m - f32(2.4999993993e-1)
    p = p * m + f32(3.3333331174e-1)
    return m + (p * m * square - f32(0.5) * square + f32(0.693147181) * e)


@inlined
def tanh(x):
    r"""Return :math:`\tanh x` as Eigen's ratio of polynomials, odd of degree 13 over even of degree 6.

    Beyond ±7.9053 the value is ±1 in float32.
    """
    x = f32(7.905311) if x > f32(7.905311) else x
    x = f32(-7.905311) if x < f32(-7.905311) else x
    q = x * x
    p = q * f32(-2.76076847742355e-16) + f32(2.00018790482477e-13)
    p = q * p - f32(8.60467152213735e-11)
    p = q * p + f32(5.12229709037114e-08)
    p = q * p + f32(1.48572235717979e-05)
    p = q * p + f32(6.37261928875436e-04)
    p = q * p + f32(4.89352455891786e-03)
    r = q * f32(1.19825839466702e-06) + f32(1.18534705686654e-04)
    r = q * r + f32(2.26843463243900e-03)
    r = q * r + f32(4.89352518554385e-03)
    return x * p / r


@inlined
def soft_clip(u, limit):
    r"""Return :math:`u / (1 + |u| / c)`, which is :math:`u` near zero and stays within :math:`\pm c`."""
    return u / (f32(1.0) + abs(u) / limit)


@inlined
def soft_clip_slope(u, limit):
    r"""Return the derivative of :func:`soft_clip`, :math:`(1 + |u| / c)^{-2}`."""
    t = f32(1.0) / (f32(1.0) + abs(u) / limit)
    return t * t
