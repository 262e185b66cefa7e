"""Element types: TensorFlow's `DataType` as interned objects, and their NumPy dtypes.

Strings, resources and variants are NumPy object arrays. To let a kernel distinguish them by NumPy
dtype, these dtypes (and the quantized ones) carry the type's name in `dtype.metadata`. NumPy
ignores metadata in comparisons; `as_dtype` reads it.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.errors import InvalidArgumentError, suggest

if TYPE_CHECKING:
    from collections.abc import Callable

_REF_OFFSET: Final = 100  # DT_FLOAT_REF is DT_FLOAT + 100; likewise for all types.
_METADATA_KEY: Final = "graphmill"


class DType:
    """An element type. Instances are interned, so `is` and `==` give the same result.

    Attributes:
        name: NumPy-style name, `"float32"`, `"string"`, `"float32_ref"`.
        enum: the value in TensorFlow's `DataType` enum.
        tf_name: the short name that TensorFlow's messages use, `"float"`, `"double"`, `"half"`.
        is_ref: whether this is a reference type (the output of a ref variable).
        size: bytes per element; 0 if elements are Python objects.
    """

    __slots__ = (
        "_numpy",
        "_ref",
        "base_dtype",
        "enum",
        "is_ref",
        "kind",
        "name",
        "size",
        "tf_name",
    )

    name: str
    enum: int
    tf_name: str
    kind: str
    size: int
    is_ref: builtins.bool
    base_dtype: DType

    def __init__(
        self,
        name: str,
        enum: int,
        tf_name: str,
        kind: str,
        size: int,
        make_numpy: Callable[[], np.dtype[Any]],
        base: DType | None = None,
    ) -> None:
        self.name = name
        self.enum = enum
        self.tf_name = tf_name
        self.kind = kind
        self.size = size
        self.is_ref = base is not None
        self.base_dtype = base or self
        self._numpy: np.dtype[Any] | Callable[[], np.dtype[Any]] = make_numpy
        self._ref: DType | None = None

    @property
    def as_numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of arrays of this type (an object dtype for strings and handles)."""
        numpy_dtype = self._numpy
        if not isinstance(numpy_dtype, np.dtype):
            numpy_dtype = self._numpy = numpy_dtype()
        return numpy_dtype

    @property
    def proto_name(self) -> str:
        """The name in TensorFlow's `DataType` enum, for example `"DT_FLOAT"`."""
        return "DT_" + (self.base_dtype.tf_name + ("_ref" if self.is_ref else "")).upper()

    @property
    def as_ref(self) -> DType:
        """The reference type of this type."""
        if self.is_ref:
            return self
        if self._ref is None:
            self._ref = DType(
                self.name + "_ref",
                self.enum + _REF_OFFSET,
                self.tf_name + "_ref",
                self.kind,
                self.size,
                lambda: self.as_numpy_dtype,
                base=self,
            )
        return self._ref

    @property
    def is_floating(self) -> builtins.bool:
        """Whether this is a real floating point type."""
        return self.kind == "f"

    @property
    def is_integer(self) -> builtins.bool:
        """Whether this is a signed or unsigned integer type that is not quantized."""
        return self.kind in "iu"

    @property
    def is_unsigned(self) -> builtins.bool:
        """Whether this is an unsigned integer type."""
        return self.kind == "u"

    @property
    def is_complex(self) -> builtins.bool:
        """Whether this is a complex type."""
        return self.kind == "c"

    @property
    def is_bool(self) -> builtins.bool:
        """Whether this is the boolean type."""
        return self.kind == "b"

    @property
    def is_quantized(self) -> builtins.bool:
        """Whether this is one of the quantized types (qint8 …)."""
        return self.kind == "q"

    @property
    def is_numpy_compatible(self) -> builtins.bool:
        """Whether values can be fed and fetched as NumPy arrays (resources and variants cannot)."""
        return self.kind != "h"

    @property
    def real_dtype(self) -> DType:
        """The type of the real part of a complex type; otherwise the type itself."""
        parts = {"complex64": "float32", "complex128": "float64"}
        real = parts.get(self.base_dtype.name)
        return self if real is None else as_dtype(real)

    @property
    def as_datatype_enum(self) -> int:
        """The value in TensorFlow's `DataType` enum; `enum` is the same."""
        return self.enum

    def is_compatible_with(self, other: Any) -> builtins.bool:
        """Return whether a value of another type can be used as this one: a reference is a value.

        Raises:
            InvalidArgumentError: `other` is not an element type.
        """
        theirs = as_dtype(other)
        return theirs in (self, self.as_ref) if not self.is_ref else theirs is self

    @property
    def min(self) -> Any:
        """The smallest finite value of the type, as a NumPy scalar of the type."""
        return self._limit("min")

    @property
    def max(self) -> Any:
        """The largest finite value of the type, as a NumPy scalar of the type."""
        return self._limit("max")

    def _limit(self, which: str) -> Any:
        numpy_dtype = self.as_numpy_dtype
        if self.kind in "iuq":
            info: Any = (
                np.iinfo(numpy_dtype)
                if numpy_dtype.kind in "iu"
                else _ml_dtypes().iinfo(numpy_dtype)
            )
        elif self.kind == "f":
            info = (
                np.finfo(numpy_dtype)
                if numpy_dtype.kind == "f"
                else _ml_dtypes().finfo(numpy_dtype)
            )
        elif self.kind == "b":
            return np.bool_(which == "max")
        else:
            raise InvalidArgumentError(f"dtype {self.name} has no smallest and largest value")
        return numpy_dtype.type(getattr(info, which))

    def __repr__(self) -> str:
        return f"graphmill.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.enum,)


def _ml_dtypes() -> Any:
    # Imported lazily: most graphs use none of its types, and it takes a tenth of the import time.
    import ml_dtypes

    return ml_dtypes


def _plain(name: str) -> Callable[[], np.dtype[Any]]:
    return lambda: np.dtype(name)


def _extended(name: str) -> Callable[[], np.dtype[Any]]:
    return lambda: np.dtype(getattr(_ml_dtypes(), name))


def _tagged(name: str, storage: Any) -> Callable[[], np.dtype[Any]]:
    return lambda: np.dtype(storage, metadata={_METADATA_KEY: name})


# Name, DataType value, TensorFlow's short name, kind, bytes per element, NumPy dtype factory.
# Kinds: f float, i signed, u unsigned, c complex, b bool, q quantized, s string, h handle.
_ROWS: tuple[tuple[str, int, str, str, int, Callable[[], np.dtype[Any]]], ...] = (
    ("float32", 1, "float", "f", 4, _plain("float32")),
    ("float64", 2, "double", "f", 8, _plain("float64")),
    ("int32", 3, "int32", "i", 4, _plain("int32")),
    ("uint8", 4, "uint8", "u", 1, _plain("uint8")),
    ("int16", 5, "int16", "i", 2, _plain("int16")),
    ("int8", 6, "int8", "i", 1, _plain("int8")),
    ("string", 7, "string", "s", 0, _tagged("string", object)),
    ("complex64", 8, "complex64", "c", 8, _plain("complex64")),
    ("int64", 9, "int64", "i", 8, _plain("int64")),
    ("bool", 10, "bool", "b", 1, _plain("bool")),
    ("qint8", 11, "qint8", "q", 1, _tagged("qint8", "int8")),
    ("quint8", 12, "quint8", "q", 1, _tagged("quint8", "uint8")),
    ("qint32", 13, "qint32", "q", 4, _tagged("qint32", "int32")),
    ("bfloat16", 14, "bfloat16", "f", 2, _extended("bfloat16")),
    ("qint16", 15, "qint16", "q", 2, _tagged("qint16", "int16")),
    ("quint16", 16, "quint16", "q", 2, _tagged("quint16", "uint16")),
    ("uint16", 17, "uint16", "u", 2, _plain("uint16")),
    ("complex128", 18, "complex128", "c", 16, _plain("complex128")),
    ("float16", 19, "half", "f", 2, _plain("float16")),
    ("resource", 20, "resource", "h", 0, _tagged("resource", object)),
    ("variant", 21, "variant", "h", 0, _tagged("variant", object)),
    ("uint32", 22, "uint32", "u", 4, _plain("uint32")),
    ("uint64", 23, "uint64", "u", 8, _plain("uint64")),
    ("float8_e5m2", 24, "float8_e5m2", "f", 1, _extended("float8_e5m2")),
    ("float8_e4m3fn", 25, "float8_e4m3fn", "f", 1, _extended("float8_e4m3fn")),
    ("float8_e4m3fnuz", 26, "float8_e4m3fnuz", "f", 1, _extended("float8_e4m3fnuz")),
    ("float8_e4m3b11fnuz", 27, "float8_e4m3b11fnuz", "f", 1, _extended("float8_e4m3b11fnuz")),
    ("float8_e5m2fnuz", 28, "float8_e5m2fnuz", "f", 1, _extended("float8_e5m2fnuz")),
    ("int4", 29, "int4", "i", 1, _extended("int4")),
    ("uint4", 30, "uint4", "u", 1, _extended("uint4")),
    ("int2", 31, "int2", "i", 1, _extended("int2")),
    ("uint2", 32, "uint2", "u", 1, _extended("uint2")),
    ("float4_e2m1fn", 33, "float4_e2m1fn", "f", 1, _extended("float4_e2m1fn")),
)

_BY_NAME: dict[str, DType] = {row[0]: DType(*row) for row in _ROWS}
_BY_ENUM: dict[int, DType] = {dtype.enum: dtype for dtype in _BY_NAME.values()}

float16 = _BY_NAME["float16"]
half = float16
bfloat16 = _BY_NAME["bfloat16"]
float32 = _BY_NAME["float32"]
float64 = _BY_NAME["float64"]
double = float64
int8 = _BY_NAME["int8"]
int16 = _BY_NAME["int16"]
int32 = _BY_NAME["int32"]
int64 = _BY_NAME["int64"]
uint8 = _BY_NAME["uint8"]
uint16 = _BY_NAME["uint16"]
uint32 = _BY_NAME["uint32"]
uint64 = _BY_NAME["uint64"]
int2 = _BY_NAME["int2"]
uint2 = _BY_NAME["uint2"]
int4 = _BY_NAME["int4"]
uint4 = _BY_NAME["uint4"]
bool = _BY_NAME["bool"]  # noqa: A001 - TensorFlow's own name for it, used as `dtypes.bool`
string = _BY_NAME["string"]
complex64 = _BY_NAME["complex64"]
complex128 = _BY_NAME["complex128"]
resource = _BY_NAME["resource"]
variant = _BY_NAME["variant"]
qint8 = _BY_NAME["qint8"]
quint8 = _BY_NAME["quint8"]
qint16 = _BY_NAME["qint16"]
quint16 = _BY_NAME["quint16"]
qint32 = _BY_NAME["qint32"]
float8_e5m2 = _BY_NAME["float8_e5m2"]
float8_e4m3fn = _BY_NAME["float8_e4m3fn"]
float8_e4m3fnuz = _BY_NAME["float8_e4m3fnuz"]
float8_e4m3b11fnuz = _BY_NAME["float8_e4m3b11fnuz"]
float8_e5m2fnuz = _BY_NAME["float8_e5m2fnuz"]
float4_e2m1fn = _BY_NAME["float4_e2m1fn"]

FLOATING: Final = (float16, bfloat16, float32, float64)
SIGNED: Final = (int8, int16, int32, int64)
UNSIGNED: Final = (uint8, uint16, uint32, uint64)
INTEGER: Final = SIGNED + UNSIGNED
COMPLEX: Final = (complex64, complex128)
REAL: Final = FLOATING + INTEGER
NUMERIC: Final = REAL + COMPLEX
QUANTIZED: Final = (qint8, quint8, qint16, quint16, qint32)
ALL: Final = tuple(_BY_NAME.values())

_ALIASES: dict[Any, DType] = {
    "half": float16,
    "float": float32,
    "double": float64,
    "str": string,
    "bytes": string,
    builtins.bool: bool,
    int: int32,
    float: float32,
    complex: complex128,
    str: string,
    bytes: string,
    object: string,
}
_ALIASES.update({dtype.proto_name: dtype for dtype in ALL})
_ALIASES.update({dtype.tf_name: dtype for dtype in ALL})
_BY_NUMPY: dict[np.dtype[Any], DType] = {
    np.dtype(dtype.name): dtype
    for dtype in (float16, float32, float64, *INTEGER, bool, complex64, complex128)
}


# NumPy's abstract scalar types. NumPy deprecates `np.dtype(...)` of them.
_ABSTRACT: Final = frozenset(
    {
        *(np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger),
        *(np.inexact, np.floating, np.complexfloating, np.flexible, np.character),
    }
)


def as_dtype(value: Any) -> DType:
    """Return the `DType` that `value` names.

    Args:
        value: a `DType`, a NumPy dtype or scalar type, a Python type, a name (`"float32"`,
            `"DT_FLOAT"`, `"half"`, `"float32_ref"`) or a value of TensorFlow's `DataType` enum.

    Raises:
        InvalidArgumentError: `value` names no element type.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, np.dtype):
        return _from_numpy(value)
    if isinstance(value, str):
        return _from_name(value)
    if isinstance(value, int) and not isinstance(value, builtins.bool):
        dtype = _from_enum(value)
        if dtype is not None:
            return dtype
    elif isinstance(value, type):
        dtype = _ALIASES.get(value)
        if dtype is not None:
            return dtype
        if issubclass(value, np.generic) and value not in _ABSTRACT:
            return _from_numpy(np.dtype(value))
    raise InvalidArgumentError(
        f"{value!r} is not an element type; expected a name such as 'float32', a NumPy dtype or a "
        "value of the DataType enum"
    )


def _from_enum(value: int) -> DType | None:
    dtype = _BY_ENUM.get(value)
    if dtype is None and value - _REF_OFFSET in _BY_ENUM:
        return _BY_ENUM[value - _REF_OFFSET].as_ref
    return dtype


def _from_name(name: str) -> DType:
    dtype = _BY_NAME.get(name) or _ALIASES.get(name)
    if dtype is not None:
        return dtype
    if name.lower().endswith("_ref"):
        return _from_name(name[:-4]).as_ref
    raise InvalidArgumentError(f"{name!r} is not an element type{suggest(name, _BY_NAME)}")


def _from_numpy(numpy_dtype: np.dtype[Any]) -> DType:
    if numpy_dtype.metadata:
        tagged = _BY_NAME.get(numpy_dtype.metadata.get(_METADATA_KEY, ""))
        if tagged is not None:
            return tagged
    dtype = _BY_NUMPY.get(numpy_dtype)
    if dtype is not None:
        return dtype
    if numpy_dtype.kind in "OSU":
        return string
    dtype = _BY_NAME.get(numpy_dtype.name)  # the names of ml_dtypes' types are the same as ours
    if dtype is not None:
        return dtype
    raise InvalidArgumentError(f"TensorFlow has no element type for NumPy dtype {numpy_dtype}")
