"""A dialect of C as tables of types, functions and keywords; the printers know no dialect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ScalarType:
    """The notation of values of one dtype.

    Attributes:
        storage: type of an element in memory.
        value: type of a value in an expression; it may be wider, then ``load`` and ``store`` go
            between the two, ``{}`` being the text.
        literal: how a constant that is written as a float (or int) literal becomes a value.
        functions: the column of the function table that its math functions are in.
        promotes: whether C computes with it as ``int``, so that results must be narrowed.
        needs: headers or helpers that the text then needs.
    """

    storage: str
    value: str
    load: str = "{}"
    store: str = "{}"
    literal: str = "{}"
    functions: str = "int"
    promotes: bool = False
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dialect:
    """A dialect of C, as the differences that the printers ask for.

    Attributes:
        scalars: by dtype.
        functions: by name and column (`ScalarType.functions`); ``"*"`` is the column of others.
            ``{0}``, ``{1}`` are the arguments and stand in parentheses or between commas, and the
            whole text is a call or in parentheses. ``#`` in front marks a helper of ours.
        casts: by (from, to) dtype, where a plain C cast does not do; ``"*"`` is any other dtype.
        helpers: text of each helper function that expressions may need, by name.
        helper_needs: headers and other helpers that the text of a helper needs, by its name.
        headers: in the order they are written; only those that are needed are.
        flags: of the compiler, by helper or header that needs it.
        shared_alignment: bytes at whose multiples shared arrays begin, by helper that needs it.
        entry: head of a function; ``{bounds}`` of its launch, ``{name}``, ``{params}``.
        restrict: the word for a pointer that has no alias.
        unroll: pragma in front of a loop to unroll; ``{}`` is the extent.
        vector_bytes: widest vector load or store; 0 for a dialect without.
        barriers: statement by scope.
        infinity, nan: by column of the function table.
        assume: statement of the range of an index to the compiler; ``{name}``, ``{extent}``.
        heap_bytes: a local array of more bytes is taken from the heap; 0 for never.
        array_alignment: bytes at whose multiples local arrays begin where vector loops use them;
            0 for a dialect whose vector loops are not loops of vector types.
        second_of_nan: whether `min` and `max` of floats are the second one where either is a NaN,
            as one instruction of a CPU has it, and `min_or_nan` and `max_or_nan` keep that of
            either side; otherwise `min` and `max` keep it.
    """

    scalars: Mapping[str, ScalarType]
    functions: Mapping[str, Mapping[str, str]]
    entry: str
    restrict: str
    unroll: str
    casts: Mapping[tuple[str, str], str] = field(default_factory=dict)
    helpers: Mapping[str, str] = field(default_factory=dict)
    helper_needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    headers: tuple[str, ...] = ()
    flags: Mapping[str, str] = field(default_factory=dict)
    shared_alignment: Mapping[str, int] = field(default_factory=dict)
    vector_bytes: int = 0
    barriers: Mapping[str, str] = field(default_factory=dict)
    infinity: Mapping[str, str] = field(default_factory=dict)
    nan: Mapping[str, str] = field(default_factory=dict)
    assume: str = ""
    heap_bytes: int = 0
    array_alignment: int = 0
    second_of_nan: bool = False
