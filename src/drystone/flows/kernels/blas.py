r"""Matrix products inside compiled code: SciPy's single-precision BLAS, called on views of larger matrices.

Numba's ``np.dot`` needs contiguous matrices. The allowed entries of a masked matrix are blocks *within* it,
so the products here take views whose rows lie any distance apart.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import get_cython_function_address, intrinsic
from threadpoolctl import ThreadpoolController

from drystone.flows.kernels.compiled import kernel

__all__ = ["product", "product_outer", "product_transposed", "single_threaded"]

# A named symbol rather than an address in the code, so that compiled code can be cached on disk.
_SYMBOL = "drystone_sgemm"
binding.add_symbol(_SYMBOL, get_cython_function_address("scipy.linalg.cython_blas", "sgemm"))


def _call_sgemm(typingctx, ta, tb, m, n, k, a, b, beta, c):
    """Call Fortran's ``sgemm``, everything by reference: C ← op(A) op(B) + beta C, float32 arrays all."""
    flag, integer = types.uint8, types.int32
    signature = types.void(flag, flag, integer, integer, integer, a, b, types.float32, c)

    def generate(context, builder, signature, arguments):
        ta, tb, m, n, k, a, b, beta, c = arguments
        void = ir.IntType(8).as_pointer()

        def reference(value):
            return builder.bitcast(cgutils.alloca_once_value(builder, value), void)

        def matrix(kind, value):
            """Return the address of an array, and a reference to the stride of its rows in elements."""
            array = context.make_array(kind)(context, builder, value)
            row = cgutils.unpack_tuple(builder, array.strides)[0]
            row = builder.trunc(builder.sdiv(row, row.type(4)), ir.IntType(32))
            return [builder.bitcast(array.data, void), reference(row)]

        kinds = signature.args
        call = [reference(x) for x in (ta, tb, m, n, k, ir.Constant(ir.FloatType(), 1.0))]
        call += matrix(kinds[5], a) + matrix(kinds[6], b) + [reference(beta)] + matrix(kinds[8], c)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [void] * len(call)), _SYMBOL
        )
        builder.call(function, call)
        return context.get_dummy_value()

    return signature, generate


_sgemm: Any = intrinsic(_call_sgemm)

# Fortran's matrices are column-major, so it sees every one of ours transposed, and C = A B as Cᵀ = Bᵀ Aᵀ.
_N, _T = ord("N"), ord("T")


@kernel
def product(a, b, out, beta):
    r"""Set :math:`C \leftarrow A B + \beta C`, with A (m, k), B (k, n) and C (m, n)."""
    _sgemm(_N, _N, b.shape[1], a.shape[0], a.shape[1], b, a, beta, out)


@kernel
def product_transposed(a, b, out, beta):
    r"""Set :math:`C \leftarrow A^\top B + \beta C`, with A (k, m), B (k, n) and C (m, n)."""
    _sgemm(_N, _T, b.shape[1], a.shape[1], a.shape[0], b, a, beta, out)


@kernel
def product_outer(a, b, out):
    r"""Set :math:`C \leftarrow A B^\top`, with A (m, k), B (n, k) and C (m, n)."""
    _sgemm(_T, _N, b.shape[0], a.shape[0], a.shape[1], b, a, 0.0, out)


_lock = threading.Lock()
_inside = 0
_threads: list[tuple[Any, int]] = []


@cache
def _libraries() -> list[Any]:
    """Return the controls of SciPy's BLAS, which is loaded by now: looking for libraries takes a millisecond."""
    return ThreadpoolController().select(user_api="blas").lib_controllers


@contextmanager
def single_threaded() -> Iterator[None]:
    """Hold BLAS to one thread while any caller is inside: work is spread over members, not within a product.

    The limit belongs to the process, so the callers are counted: the first one in sets it and the last one
    out lifts it, in whichever order threads come and go.
    """
    global _inside, _threads
    with _lock:
        if _inside == 0:
            # As threadpoolctl's `limit` does, which in addition describes every library, at 0.1 ms per call.
            _threads = [(library, library.num_threads) for library in _libraries()]
            for library, _ in _threads:
                library.set_num_threads(1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                for library, threads in _threads:
                    library.set_num_threads(threads)
