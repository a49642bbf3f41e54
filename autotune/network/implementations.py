"""The table of templates that compute layers, to which templates add themselves.

    @implements("nn.conv2d", "cpu")
    def conv2d_nchw_cpu(layer: Layer) -> Offer | None:
        ...

`offers_of` returns the templates for a layer; networks call it for their functions.
`templates_for` lists the templates that there are for an operator, a layout and a type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from inspect import signature

from autotune.errors import AutotuneError, GraphError
from autotune.graph import OPERATORS, Graph, Node, Operator, TensorType, Value, Variable
from autotune.graph.fuse import FusedFunction, function_of
from autotune.network.layer import Layer, layers_of
from autotune.network.template_tasks import layer_tasks
from autotune.target import Target
from autotune.task import Task, create
from autotune.utils.check import Check
from autotune.utils.names import did_you_mean

# Of data, of one to three dimensions.
LAYOUTS = ("NCW", "NWC", "NCHW", "NHWC", "NCDHW", "NDHWC")
# Where the templates that come with autotune enter themselves.
_LIBRARY = "autotune.templates.layers"


@dataclass(frozen=True)
class Offer:
    """A template's offer to compute a layer.

    Attributes:
        template: its name.
        args: its arguments.
        operands: which values of the layer its kernel takes, in order; the result comes last. A
            kernel may see a value in another shape of as many elements.
        prepared: operators that are applied once, ahead of time, to operands whose numbers are
            known; the kernel takes the results.
        aliases: other workloads, of logs from elsewhere, whose records fit the template's knobs;
            those of TVM's templates for the operator are known without.
        in_place: whether the kernel writes each element after it has read those of operands at the
            same place, and reads these for no other, so that the result may overwrite one.
    """

    template: str
    args: tuple[object, ...]
    operands: tuple[Value, ...]
    prepared: Mapping[Value, Operator] = field(default_factory=dict)
    aliases: tuple[tuple[object, ...], ...] = ()
    in_place: bool = False


@dataclass(frozen=True)
class FunctionOffer:
    """A template's offer for a function, and for all others of its structure.

    Attributes:
        task: the template with its arguments.
        nodes: how many of the function's nodes it computes, from the first on.
        operands: numbers of the function's inputs that the kernel takes, in order.
        prepared: the inputs that are transformed ahead of time: (number of the input, operator).
        known_as: workloads whose records have the knobs of the task, the nearest first: its own,
            that of the operator alone, and those under which other programs may have logged it.
        own: how many of these belong to the template itself.
        in_place: see `Offer`.
    """

    task: Task
    nodes: int
    operands: tuple[int, ...]
    prepared: tuple[tuple[int, Operator], ...] = ()
    known_as: tuple[tuple[object, ...], ...] = ()
    own: int = 0
    in_place: bool = False


Matcher = Callable[[Layer], Offer | None]
WholeMatcher = Callable[[FusedFunction], Offer | None]


@dataclass(frozen=True)
class Implementation:
    """A template in the table: what it may compute, and who says whether it does.

    Attributes:
        template: its name; empty where the matcher chooses among several.
        operator, kind: as in `implements`.
        layouts: of data, for operators that have one; None for all.
        dtypes: of which all operands and the result are; None for all.
        mixes: whether only the result need be of these.
        activations: what it does after a sum.
        keeps: whether it writes the sum before that too.
        matcher: called for layers of these.
    """

    template: str
    operator: str
    kind: str
    layouts: frozenset[str] | None
    dtypes: frozenset[str] | None
    activations: frozenset[str]
    matcher: Matcher
    keeps: bool = False
    mixes: bool = False

    def offer(self, layer: Layer) -> Offer | None:
        """Return the template's offer for a layer, or None."""
        serves = (
            self._has(self.layouts, layer.layout)
            and (self.dtypes is None or self._dtypes_of(layer) <= self.dtypes)
            and layer.epilogue.kind_of_activation in self.activations
            and (self.keeps or not layer.epilogue.kept)
        )
        return self.matcher(layer) if serves else None

    def _dtypes_of(self, layer: Layer) -> set[str]:
        return {layer.result.dtype} if self.mixes else layer.dtypes

    def serves(self, layout: str | None = None, dtype: str | None = None) -> bool:
        """Return whether it may compute layers of a layout and a type; None means any."""
        return self._has(self.layouts, layout) and self._has(self.dtypes, dtype)

    @staticmethod
    def _has(known: frozenset[str] | None, wanted: str | None) -> bool:
        return known is None or wanted is None or wanted in known


# (operator, kind of target) -> who may compute it.
_TABLE: dict[tuple[str, str], list[Implementation]] = {}


def implements(
    operator: str,
    kind: str,
    template: str = "",
    layouts: Iterable[str] | None = None,
    dtypes: Iterable[str] | None = None,
    activations: Iterable[str] = ("none", "relu"),
    keeps: bool = False,
    mixes: bool = False,
) -> Callable[[Matcher], Matcher]:
    """Register a matcher: a function that returns how a template computes a layer.

    The matcher returns None for a layer that the template does not compute, or for which it is too
    slow. It is called for the operator with its whole epilogue first and, if it declines, with
    shorter ones; the remaining operators then form a kernel of their own.

    Args:
        operator: name of the operator, such as ``"nn.conv2d"``.
        kind: ``"cuda"`` or ``"cpu"``.
        template: name of the template, by which `templates_for` lists it.
        layouts: supported layouts of the data, such as ``["NCHW"]``; by default all.
        dtypes: supported types of operands and results; by default all.
        activations: supported activations: some of ``"none"``, ``"relu"``, ``"relu6"``,
            ``"silu"``, ``"gelu"``, ``"gelu_tanh"`` and ``"expression"``, which stands for any
            other function of one number. The matcher is not called for others.
        keeps: whether the template can write the two results of a layer with `Epilogue.kept`;
            otherwise the matcher is not called for such layers.
        mixes: whether operands may be of other types than ``dtypes``, which the matcher judges.
    """
    check = Check(GraphError, "implements")
    if template:
        check.text("template", template, "conv2d_nchw.cpu")
    check.text("operator", operator, "nn.conv2d")
    check.one_of("kind", kind, ("cuda", "cpu"))

    def enter(matcher: Matcher) -> Matcher:
        check.function("matcher", matcher, of="a layer")
        entry = Implementation(
            template, operator, kind, _frozen(layouts), _frozen(dtypes), frozenset(activations),
            matcher, keeps, mixes,
        )  # fmt: skip
        _TABLE.setdefault((operator, kind), []).append(entry)
        return matcher

    return enter


# Kind of target -> who may compute functions whole that begin with elementwise operators, or with
# what moves elements.
_WHOLE: dict[str, list[WholeMatcher]] = {}


def implements_whole(kind: str, template: str) -> Callable[[WholeMatcher], WholeMatcher]:
    """Register a matcher for functions that are not layers.

    Such functions begin with an elementwise operator, or one that moves elements, and have several
    nodes. The matcher returns None for functions that the template does not compute completely, or
    for which it is too slow. Operands of its offer are inputs of the function's graph.

    Args:
        kind: ``"cuda"`` or ``"cpu"``.
        template: name of the template.
    """
    check = Check(GraphError, "implements_whole")
    check.text("template", template, "elementwise.cuda")
    check.one_of("kind", kind, ("cuda", "cpu"))

    def enter(matcher: WholeMatcher) -> WholeMatcher:
        check.function("matcher", matcher, of="a function")
        _WHOLE.setdefault(kind, []).append(matcher)
        return matcher

    return enter


def _frozen(names: Iterable[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)


def templates_for(
    operator: str, kind: str | Target, layout: str | None = None, dtype: str | None = None
) -> list[Implementation]:
    """Return the templates that may compute an operator, in the order they are tried.

    One that may do so in several ways is listed once.

    Args:
        operator: its name, such as ``"nn.conv2d"``.
        kind: ``"cuda"`` or ``"cpu"``, or a target.
        layout: of its data, such as ``"NHWC"``; None for any.
        dtype: of operands and result; None for any.

    Raises:
        GraphError: there is no such operator, layout or dtype.
        TargetError: there is no such target.
    """
    _load_library()
    _check_query(operator, layout, dtype)
    known = "cpu" if kind == "cpu" else _kind_of(Target(kind))
    entries = [each for each in _TABLE.get((operator, known), ()) if each.serves(layout, dtype)]
    return list({each.template or id(each): each for each in reversed(entries)}.values())[::-1]


def _check_query(operator: str, layout: str | None, dtype: str | None) -> None:
    """Refuse what no layer can have, which is a slip."""
    check = Check(GraphError, "templates_for")
    names = {*OPERATORS, *(name for name, _ in _TABLE)}
    if operator not in names:
        meant = did_you_mean(str(operator), names)
        check.refuse("operator", "the name of one, such as 'nn.conv2d'", operator, meant)
    if layout is not None:
        entered = {
            each for entries in _TABLE.values() for e in entries for each in e.layouts or ()
        }
        check.one_of("layout", layout, sorted({*LAYOUTS, *entered}))
    if dtype is not None:
        TensorType((1,), dtype)


def _kind_of(target: Target) -> str:
    return "cuda" if target.backend.on_gpu else "cpu"


def offers_of(function: FusedFunction, target: Target) -> list[FunctionOffer]:
    """Return the offers of templates for a function, each for as much of it as it can.

    Raises:
        TemplateError: a matcher gives arguments that its template does not take.
    """
    _load_library()
    kind = _kind_of(target)
    layers = layers_of(function, target)
    found = []
    for entry in _TABLE.get((layers[0][1].op.name, kind), ()) if layers else ():
        for count, layer in layers:
            whole = count == len(function.nodes)
            offer = entry.offer(layer) if whole or function.cut(count) is not None else None
            if offer is not None:
                _check_offer(offer, layer)
                found.append(_of_function(function, offer, count, entry, layers))
                break
    if not layers:
        made = (matcher(function) for matcher in _WHOLE.get(kind, ()))
        found += [_of_whole(function, offer, target) for offer in made if offer is not None]
    return found


def _of_whole(function: FusedFunction, offer: Offer, target: Target) -> FunctionOffer:
    """Return a template's offer for a function that is not a layer."""
    task = create(offer.template, offer.args, target)
    place: dict[Value, int] = {value: i for i, value in enumerate(function.graph.inputs)}
    known = tuple(dict.fromkeys(_spellings(task)))
    operands = tuple(place[value] for value in offer.operands)
    nodes, own = len(function.nodes), len(known)
    return FunctionOffer(task, nodes, operands, (), known, own, offer.in_place)


def serves(node: Node, target: Target) -> bool:
    """Return whether a template computes a node by itself, with nothing laid out ahead of time."""
    _load_library()
    if (node.op.name, _kind_of(target)) not in _TABLE:
        return False
    alone = [Variable(value.type, f"p{i}") for i, value in enumerate(node.inputs)]
    function = function_of(Graph.of(*Node(node.op, tuple(alone), node.origin).outputs))
    return any(not offer.prepared for offer in offers_of(function, target))


def serving(target: Target) -> Callable[[Node], bool]:
    """Return `serves` for a target, which remembers its answers for as long as it is kept.

    Layers of a network repeat, and to ask templates runs them.
    """
    known: dict[tuple[Operator, tuple[TensorType, ...]], bool] = {}

    def served(node: Node) -> bool:
        key = node.op, tuple([value.type for value in node.inputs])
        if key not in known:
            known[key] = serves(node, target)
        return known[key]

    return served


def _of_function(
    function: FusedFunction,
    offer: Offer,
    nodes: int,
    entry: Implementation,
    layers: list[tuple[int, Layer]],
) -> FunctionOffer:
    """Return what a template does of a function that is these layers, the longest first."""
    layer = layers[-1][1]
    target = layer.target
    place: dict[Value, int] = {value: i for i, value in enumerate(function.graph.inputs)}
    task = create(offer.template, offer.args, target)
    known = _spellings(task)
    # To keep a result costs little: records of the same without it come next.
    nearest = next(each for _, each in layers if not each.epilogue.kept)
    for shorter in (nearest, layer) if layers[0][1].epilogue.kept else (layer,):
        less = entry.offer(shorter)
        if less is not None and less.template == offer.template:
            known += _spellings(Task(less.template, less.args, target))
    own = len(dict.fromkeys(known))
    known += offer.aliases
    tasks = layer_tasks(layer.op, layer.inputs, layer.result.dtype, target)
    known += [(each.name, *each.args) for each in tasks]
    return FunctionOffer(
        task,
        nodes,
        tuple(place[value] for value in offer.operands),
        tuple((place[value], op) for value, op in offer.prepared.items()),
        tuple(dict.fromkeys(known)),
        own,
        offer.in_place,
    )


def _spellings(task: Task) -> list[tuple[object, ...]]:
    """Return the workload of a task, and the other forms in which scripts may write it.

    They may leave out arguments with default values, and write one number for two equal ones.
    """
    parameters = list(signature(task.func).parameters.values())
    args = task.args
    found = [args]
    while len(parameters) >= len(args) > 0 and parameters[len(args) - 1].default == args[-1]:
        args = args[:-1]
        found.append(args)
    found += [tuple(map(_one_for_both, args)) for args in found]
    return [Task(task.name, args, task.target).workload for args in dict.fromkeys(found)]


def _one_for_both(extent: object) -> object:
    match extent:
        case (int(y), int(x)) if y == x and not isinstance(y, bool):
            return y
    return extent


def _check_offer(offer: Offer, layer: Layer) -> None:
    unknown = [value for value in offer.prepared if value not in layer.constants]
    if unknown:
        raise GraphError(
            f"implements: {offer.template!r} lays out operands anew whose numbers are not known: "
            "a matcher must look at layer.constants first"
        )


@cache
def _load_library() -> None:
    """Load the templates that come with autotune, so that they enter themselves."""
    try:
        import_module(_LIBRARY)
    except AutotuneError as error:  # the user registered templates under the same names
        raise GraphError(
            f"{_LIBRARY} cannot be loaded, whose templates networks are made of: {error}"
        ) from error
