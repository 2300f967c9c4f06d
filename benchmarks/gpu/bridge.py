"""One Attention by ctypes: the other side of bridge.cpp."""

from __future__ import annotations

import array
import ctypes
import json
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

MAX_RANK = 4


class BridgeError(RuntimeError):
    """What the engine threw, in its words."""


class ForeignTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_char_p),
        ("rank", ctypes.c_int64),
        ("shape", ctypes.c_int64 * MAX_RANK),
        ("strides", ctypes.c_int64 * MAX_RANK),
    ]

    @classmethod
    def of(cls, tensor: torch.Tensor) -> ForeignTensor:
        return cls(
            tensor.data_ptr(),
            str(tensor.dtype).removeprefix("torch.").encode(),
            tensor.dim(),
            (ctypes.c_int64 * MAX_RANK)(*tensor.shape),
            (ctypes.c_int64 * MAX_RANK)(*tensor.stride()),
        )


# The arguments of each function after its name's prefix; all return a status.
_POINTER, _INT = ctypes.c_void_p, ctypes.c_int64
_OUT_INT, _TENSOR = ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ForeignTensor)
_FUNCTIONS: dict[str, list[Any]] = {
    "open_device": [],
    "create": [ctypes.c_char_p, ctypes.POINTER(_POINTER)],
    "plan": [_POINTER, _INT, _POINTER, _POINTER, _POINTER, _POINTER, _POINTER],
    "plan_single": [_POINTER, _INT, _INT, _POINTER],
    "bind": [_POINTER, _TENSOR, _TENSOR, _TENSOR, _TENSOR, _TENSOR, _INT, _OUT_INT],
    "run": [_POINTER, _INT, _POINTER],
    "time_run": [_POINTER, _INT, _POINTER, _INT, _OUT_INT],
    "time_plan": [_POINTER, _POINTER, _INT, _OUT_INT],
    "explain": [_POINTER, ctypes.POINTER(ctypes.c_char_p)],
}


class Bridge:
    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._error = self._library.trencadis_bench_error
        self._error.restype = ctypes.c_char_p
        self.destroy = self._library.trencadis_bench_destroy
        self.destroy.argtypes, self.destroy.restype = [_POINTER], None
        self._functions = {}
        for name, arguments in _FUNCTIONS.items():
            function = getattr(self._library, "trencadis_bench_" + name)
            function.argtypes, function.restype = arguments, ctypes.c_int
            self._functions[name] = function

    def call(self, name: str, *arguments: Any) -> None:
        if self._functions[name](*arguments) != 0:
            raise BridgeError(self._error().decode())

    def open_device(self) -> None:
        self.call("open_device")


class Engine:
    """An Attention. `config` is what trencadis_bench_create() takes. A stream is a CUstream as an
    int, 0 for the default one."""

    def __init__(self, bridge: Bridge, config: dict[str, Any]) -> None:
        self._bridge = bridge
        self._handle = ctypes.c_void_p()
        self._kept: list[Any] = []  # tensors that bindings point to
        bridge.call("create", json.dumps(config).encode(), ctypes.byref(self._handle))

    def plan(
        self,
        qo_indptr: Sequence[int],
        kv_indptr: Sequence[int],
        kv_indices: Sequence[int] | None,
        kv_lens: Sequence[int],
        stream: int = 0,
    ) -> None:
        """kv_indices None: blocks lie one after another."""
        tables = (qo_indptr, kv_indptr, kv_indices, kv_lens)
        arrays = [None if table is None else array.array("i", table) for table in tables]
        addresses = [None if x is None else x.buffer_info()[0] for x in arrays]
        self._bridge.call("plan", self._handle, len(kv_lens), *addresses, stream)

    def plan_single(self, num_qo_tokens: int, num_kv_tokens: int, stream: int = 0) -> None:
        self._bridge.call("plan_single", self._handle, num_qo_tokens, num_kv_tokens, stream)

    def bind(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        out: torch.Tensor,
        extra: Sequence[torch.Tensor] = (),
    ) -> int:
        self._kept += [q, k, v, out, *extra]
        tensors = (ForeignTensor.of(x) for x in (q, k, v, out))
        more = (ForeignTensor * len(extra))(*(ForeignTensor.of(x) for x in extra))
        binding = ctypes.c_int64()
        self._bridge.call("bind", self._handle, *tensors, more, len(extra), ctypes.byref(binding))
        return binding.value

    def run(self, binding: int, stream: int) -> None:
        self._bridge.call("run", self._handle, binding, stream)

    def time_run(self, binding: int, stream: int, count: int) -> int:
        """Median nanoseconds of `count` calls of run()."""
        nanoseconds = ctypes.c_int64()
        self._bridge.call(
            "time_run", self._handle, binding, stream, count, ctypes.byref(nanoseconds)
        )
        return nanoseconds.value

    def time_plan(self, stream: int, count: int) -> int:
        """Median nanoseconds of making the last plan again."""
        nanoseconds = ctypes.c_int64()
        self._bridge.call("time_plan", self._handle, stream, count, ctypes.byref(nanoseconds))
        return nanoseconds.value

    def explain(self) -> str:
        text = ctypes.c_char_p()
        self._bridge.call("explain", self._handle, ctypes.byref(text))
        return (text.value or b"").decode()

    def close(self) -> None:
        if self._handle:
            self._bridge.destroy(self._handle)
            self._handle = ctypes.c_void_p()
        self._kept.clear()

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
