"""TVM's `Function` and `IRModule` over a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from autotune.errors import GraphError
from autotune.graph import Graph, Value, Variable, free_variables, graph_text
from autotune.utils.check import Check

T = TypeVar("T")
_VARIABLES = "a list of variables"


class Tuple(Generic[T]):
    """Several values as one: ``relay.Tuple``."""

    def __init__(self, fields: Sequence[T]) -> None:
        self.fields = tuple(fields)

    def __getitem__(self, index: int) -> T:
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)

    def __iter__(self) -> Iterator[T]:
        return iter(self.fields)

    def astuple(self) -> Tuple[T]:
        """Return itself: TVM's wrapper of calls with several results has this method."""
        return self


def flattened(value: object) -> tuple[Value, ...]:
    """Return the tensors of nested tuples."""
    if isinstance(value, Value):
        return (value,)
    if isinstance(value, (Tuple, tuple, list)):
        return tuple(each for part in value for each in flattened(part))
    raise GraphError(f"expected an expression of relay, got {value!r}")


class Function:
    """A network: parameters and a body, which may be a tuple.

    Attributes:
        params: its variables, in order.
        body: what it computes.
        graph: the same as a graph of autotune.
    """

    def __init__(
        self,
        params: Sequence[Variable],
        body: object,
        ret_type: object = None,
        type_params: object = None,
        attrs: object = None,
    ) -> None:
        check = Check(GraphError, "Function")
        self.params = list(check.sequence("params", params, _VARIABLES))
        if not all(isinstance(each, Variable) for each in self.params):
            check.refuse("params", _VARIABLES, params)
        self.body = body
        self.ret_type = ret_type
        self.type_params = type_params
        self.attrs = attrs
        self.graph = Graph(tuple(self.params), flattened(body))

    @staticmethod
    def of(graph: Graph) -> Function:
        """Make the function of a graph."""
        body = graph.outputs[0] if len(graph.outputs) == 1 else Tuple(graph.outputs)
        return Function(graph.inputs, body)

    def __str__(self) -> str:
        return graph_text(self.graph)

    def astext(self, show_meta_data: bool = True, annotate: object = None) -> str:
        """Return the text; both arguments are accepted for scripts of TVM."""
        return str(self)


class IRModule:
    """Functions by name; networks are called ``main``."""

    def __init__(self, functions: Mapping[str, Function] | None = None) -> None:
        if functions is not None:
            expected = "a dict of names and functions; IRModule.from_expr takes one function"
            Check(GraphError, "IRModule").kind("functions", functions, Mapping, expected)
        self.functions = {str(name): function for name, function in (functions or {}).items()}

    @staticmethod
    def from_expr(expr: object) -> IRModule:
        """Make a module of a function, or of an expression whose variables are parameters."""
        if isinstance(expr, IRModule):
            return expr
        if isinstance(expr, Graph):
            return IRModule({"main": Function.of(expr)})
        if not isinstance(expr, Function):
            expr = Function(free_variables(flattened(expr)), expr)
        return IRModule({"main": expr})

    def __getitem__(self, name: str) -> Function:
        if str(name) not in self.functions:
            raise GraphError(f"module: expected one of {list(self.functions)}, got {name!r}")
        return self.functions[str(name)]

    def __setitem__(self, name: str, function: Function) -> None:
        self.functions[str(name)] = function

    def __contains__(self, name: str) -> bool:
        return str(name) in self.functions

    def __str__(self) -> str:
        return "\n".join(f"def @{name}:\n{each}" for name, each in self.functions.items())

    def astext(self, show_meta_data: bool = True, annotate: object = None) -> str:
        """Return the text; both arguments are accepted for scripts of TVM."""
        return str(self)


def graph_of(module: object) -> Graph:
    """Return the graph of a module, its main function, or an expression.

    Raises:
        GraphError: it is none of these.
    """
    match module:
        case Graph():
            return module
        case IRModule():
            return module["main"].graph
        case Function():
            return module.graph
        case Value() | Tuple():
            return IRModule.from_expr(module)["main"].graph
    raise GraphError(f"expected a module or function of relay, got {module!r}")
