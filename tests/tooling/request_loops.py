"""Finds functions that loop over a list of a request without a checkpoint.

How it works. The syntax trees of `protocol/messages` give the fields of each message class, and which of them are
lists. Classes of the examined folders with such fields count as messages, too, and so do aliases of unions. In
`coordinator/apis`, `topics`, `group` and `transactions` the types of local names follow from annotations of
parameters with a message class (also in a union, a sequence or a mapping's value), from assignments, and from the
targets of loops: in `for topic in request.topics` the name `topic` has the class of the list's elements.
`getattr(request, field)` is the list of a generic rule of authorization. A loop is a `for`, a comprehension, or a
call that reads a whole list, such as `sorted(request.topics)` or `set(topic.partitions)`. The part of a list up to
a constant, such as `topics[:MAX_TOPICS]`, is bounded.

A function is covered in one of three cases:

- it awaits `checkpoint`;
- it is a generator: the caller decides when the next step runs;
- its module calls it only in lambdas for another thread.

A nested function counts for itself, and knows the names of the function around it.

What it cannot see. A list that reaches a function without an annotation with a message class, for example as an
attribute of `self`. A loop over values that were built from the list, such as a list of names, the records of a
commit, or the partitions of a request to a machine. A long step of a covered function: a comprehension over a list
in a generator is one step. A covered function whose caller runs all steps at once. Lists of responses are not
fields of requests, so loops over them do not count.

`python -m tests.tooling.request_loops` prints the functions that it finds.
"""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import tests

ROOT: Final = Path(tests.__file__).parents[1]
MESSAGES: Final = "protocol/messages"
EXAMINED: Final = tuple(f"coordinator/{name}" for name in ("apis", "topics", "group", "transactions"))
ARRAYS: Final = {"Array", "NullableArray"}
COLLECTIONS: Final = {
    "list", "tuple", "set", "Sequence", "Iterable", "Iterator", "Collection", "Container", "Generator",
}  # fmt: skip
"""Annotations of lists: the element is the first argument. The value type of a mapping is the last one."""
MAPPINGS: Final = {"dict", "defaultdict", "Mapping"}
READERS: Final = {
    "Counter", "all", "any", "chain", "deque", "dict", "difference", "enumerate", "extend", "filter",
    "from_iterable", "fromkeys", "frozenset", "groupby", "intersection", "isdisjoint", "islice", "issubset",
    "issuperset", "iter", "join", "list", "map", "max", "min", "reversed", "set", "sorted", "sum", "tuple",
    "union", "update", "zip",
}  # fmt: skip
"""Calls that read a list that is their argument. The elements of the result have the type of the list's elements
where the call is in `PASSING`."""
THREAD_CALLS: Final = {"call_in_thread", "run_in_thread_if_large"}
"""Calls that run a function in another thread, at least for a large request."""
PASSING: Final = {"filter", "iter", "list", "reversed", "sorted", "tuple", "islice", "set", "chain"}


@dataclass(frozen=True)
class Type:
    """The type of an expression: one of some message classes, or a list of elements."""

    structs: tuple[str, ...] = ()
    is_list: bool = False
    element: "Type | None" = None
    is_bounded: bool = False
    """Whether it is the part of a list up to a constant, such as `topics[:MAX_TOPICS]`."""


Types = Mapping[str, Mapping[str, Type]]
"""The types of the fields of each message class that hold messages or lists."""


@dataclass
class Scope:
    """One function, and the types of the names in it."""

    name: str
    names: dict[str, Type] = field(default_factory=dict)
    loops: list[int] = field(default_factory=list)
    is_covered: bool = False


def read_message_types(texts: Mapping[str, str]) -> Types:
    """Return the fields of requests and of their structs, by class. `texts` are module sources by path."""
    fields: dict[str, dict[str, Type]] = {}
    requests: set[str] = set()
    for text in texts.values():
        for node in ast.parse(text).body:
            if not isinstance(node, ast.ClassDef):
                continue
            decorators = {
                _name(each.func if isinstance(each, ast.Call) else each) for each in node.decorator_list
            }
            if "request" in decorators:
                requests.add(node.name)
            fields[node.name] = {
                each.target.id: found
                for each in node.body
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
                for found in [_parse_field(each.annotation)]
                if found is not None
            }
    reachable, waiting = set(), list(requests)
    while waiting:
        name = waiting.pop()
        if name in fields and name not in reachable:
            reachable.add(name)
            for found in fields[name].values():
                waiting += (found.element or found).structs
    return {name: fields[name] for name in reachable}


def add_classes(types: Types, aliases: dict[str, Type], texts: Mapping[str, str]) -> Types:
    """Return the types with the classes that have fields of these types. Fill in the aliases of unions."""
    added = dict(types)
    for text in texts.values():
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef):
                fields = {
                    each.target.id: found
                    for each in node.body
                    if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
                    for found in [parse_annotation(each.annotation, types, {})]
                    if found is not None
                }
                if fields:
                    added[node.name] = fields
            elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.BinOp):
                target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                found = parse_annotation(node.value, types, {})
                if found is not None:
                    aliases[_name(target)] = found
    return added


def parse_annotation(annotation: ast.expr | None, types: Types, aliases: Mapping[str, Type]) -> Type | None:
    """Return the type of an annotation; None where no message class is in it."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    if isinstance(annotation, ast.BinOp):  # A | B
        sides = (annotation.left, annotation.right)
        found = [one for side in sides if (one := parse_annotation(side, types, aliases)) is not None]
        if len(found) == 2 and not (found[0].is_list or found[1].is_list):
            return Type(found[0].structs + found[1].structs)
        return found[0] if found else None
    if isinstance(annotation, ast.Subscript):
        inner = annotation.slice
        arguments = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        name = _name(annotation.value)
        if name not in COLLECTIONS | MAPPINGS:
            return None
        element = parse_annotation(arguments[-1 if name in MAPPINGS else 0], types, aliases)
        return None if element is None else Type(is_list=True, element=element)
    if not isinstance(annotation, ast.Name | ast.Attribute):
        return None
    name = _name(annotation)
    return Type((name,)) if name in types else aliases.get(name)


def find_loops(path: str, text: str, types: Types, aliases: Mapping[str, Type]) -> dict[str, list[int]]:
    """Return the lines of the loops of each function without a checkpoint, by `path:Class.function`."""
    visitor = _Visitor(types, aliases)
    visitor.visit(ast.parse(text))
    in_thread = find_functions_of_threads(text)
    return {
        f"{path}:{scope.name}": sorted(set(scope.loops))
        for scope in visitor.finished
        if scope.loops and not scope.is_covered and scope.name not in in_thread
    }


def find_functions_of_threads(text: str) -> set[str]:
    """Return the functions of a module that it calls only in arguments of `THREAD_CALLS`."""
    calls: dict[str, list[bool]] = {}

    def visit(node: ast.AST, in_thread: bool) -> None:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            calls.setdefault(node.id, []).append(in_thread)
        is_thread_call = isinstance(node, ast.Call) and _name(node.func) in THREAD_CALLS
        for child in ast.iter_child_nodes(node):
            visit(child, in_thread or (is_thread_call and isinstance(child, ast.Lambda)))

    visit(ast.parse(text), False)
    return {name for name, places in calls.items() if all(places)}


def examine() -> dict[str, list[int]]:
    """Return the loops of all functions without a checkpoint in the examined folders."""
    aliases: dict[str, Type] = {}
    types = read_message_types(_read_texts(MESSAGES))
    texts = _read_texts(*EXAMINED)
    types = add_classes(types, aliases, texts)
    found: dict[str, list[int]] = {}
    for path, text in texts.items():
        found |= find_loops(path, text, types, aliases)
    return found


def _read_texts(*folders: str) -> dict[str, str]:
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _is_bounded(part: ast.Slice) -> bool:
    """Whether a slice ends at a constant of the module."""
    end = part.upper
    return part.lower is None and (
        isinstance(end, ast.Constant) or (isinstance(end, ast.Name) and end.id.isupper())
    )


def _parse_field(annotation: ast.expr) -> Type | None:
    """The type of a field that is a list or another message class."""
    if isinstance(annotation, ast.Subscript) and _name(annotation.value) in ARRAYS:
        return Type(is_list=True, element=Type((_name(annotation.slice),)))
    return Type((_name(annotation),)) if isinstance(annotation, ast.Name) else None


_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


class _Visitor(ast.NodeVisitor):
    """Walks over one module."""

    def __init__(self, types: Types, aliases: Mapping[str, Type]) -> None:
        self._types = types
        self._aliases = aliases
        self._path: list[str] = []
        self._scopes: list[Scope] = []
        self.finished: list[Scope] = []
        self._visitors: dict[type[ast.AST], Callable[[Any], None]] = {
            ast.ClassDef: self._visit_class,
            ast.FunctionDef: self._visit_function,
            ast.AsyncFunctionDef: self._visit_function,
            ast.Yield: self._visit_yield,
            ast.YieldFrom: self._visit_yield,
            ast.Await: self._visit_await,
            ast.Assign: self._visit_assignment,
            ast.AnnAssign: self._visit_annotated_assignment,
            ast.NamedExpr: self._visit_named_expression,
            ast.For: self._visit_for,
            ast.AsyncFor: self._visit_for,
            ast.Call: self._visit_call,
            **dict.fromkeys(_COMPREHENSIONS, self._visit_comprehension),
        }

    def visit(self, node: ast.AST) -> None:
        """Visit a node and those in it."""
        visit: Callable[[Any], object] = self._visitors.get(type(node), self.generic_visit)
        visit(node)

    # Scopes

    def _visit_class(self, node: ast.ClassDef) -> None:
        self._path.append(node.name)
        self.generic_visit(node)
        self._path.pop()

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._path.append(node.name)
        scope = Scope(".".join(self._path), dict(self._scopes[-1].names) if self._scopes else {})
        arguments = node.args
        for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
            scope.names.pop(argument.arg, None)
            found = parse_annotation(argument.annotation, self._types, self._aliases)
            if found is not None:
                scope.names[argument.arg] = found
        self._scopes.append(scope)
        for statement in node.body:
            self.visit(statement)
        self.finished.append(self._scopes.pop())
        self._path.pop()

    def _visit_yield(self, node: ast.Yield | ast.YieldFrom) -> None:
        if self._scopes:
            self._scopes[-1].is_covered = True
        self.generic_visit(node)

    def _visit_await(self, node: ast.Await) -> None:
        if self._scopes and isinstance(node.value, ast.Call) and _name(node.value.func) == "checkpoint":
            self._scopes[-1].is_covered = True
        self.generic_visit(node)

    # Names

    def _visit_assignment(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self._bind(target, self._infer(node.value))

    def _visit_annotated_assignment(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
        found = parse_annotation(node.annotation, self._types, self._aliases)
        self._bind(node.target, found)

    def _visit_named_expression(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self._bind(node.target, self._infer(node.value))

    def _bind(self, target: ast.expr, found: Type | None) -> None:
        if not self._scopes:
            return
        if isinstance(target, ast.Tuple):  # of enumerate, zip and items: the last one has the type
            for each in target.elts[:-1]:
                self._bind(each, None)
            self._bind(target.elts[-1], found)
        elif isinstance(target, ast.Name):
            self._scopes[-1].names.pop(target.id, None)
            if found is not None:
                self._scopes[-1].names[target.id] = found

    # Loops

    def _visit_for(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self._note_loop(node.iter, node.target)
        for statement in [*node.body, *node.orelse]:
            self.visit(statement)

    def _visit_comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
    ) -> None:
        before = dict(self._scopes[-1].names) if self._scopes else {}
        for generator in node.generators:
            self.visit(generator.iter)
            self._note_loop(generator.iter, generator.target)
            for condition in generator.ifs:
                self.visit(condition)
        if isinstance(node, ast.DictComp):
            self.visit(node.key)
            self.visit(node.value)
        else:
            self.visit(node.elt)
        if self._scopes:
            self._scopes[-1].names = before

    def _visit_call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        if self._scopes and _name(node.func) in READERS and any(map(self._is_list, node.args)):
            self._scopes[-1].loops.append(node.lineno)

    def _note_loop(self, iterated: ast.expr, target: ast.expr) -> None:
        if not self._scopes:
            return
        found = self._infer(iterated)
        if found is None or not found.is_list:
            self._bind(target, None)
            return
        if not found.is_bounded:
            self._scopes[-1].loops.append(iterated.lineno)
        self._bind(target, found.element)

    def _is_list(self, node: ast.expr) -> bool:
        found = self._infer(node.value if isinstance(node, ast.Starred) else node)
        return found is not None and found.is_list and not found.is_bounded

    # Types

    def _infer(self, node: ast.expr) -> Type | None:
        if isinstance(node, ast.Name):
            return self._scopes[-1].names.get(node.id) if self._scopes else None
        if isinstance(node, ast.Attribute):
            owner = self._infer(node.value)
            fields = [self._types.get(name, {}) for name in (owner.structs if owner is not None else ())]
            return next((each[node.attr] for each in fields if node.attr in each), None)
        if isinstance(node, ast.BoolOp):  # `request.topics or ()`
            return next(filter(None, map(self._infer, node.values)), None)
        if isinstance(node, ast.IfExp):
            return self._infer(node.body) or self._infer(node.orelse)
        if isinstance(node, ast.Subscript):
            owner = self._infer(node.value)
            if owner is None or not owner.is_list:
                return None
            if isinstance(node.slice, ast.Slice):
                return replace(owner, is_bounded=True) if _is_bounded(node.slice) else owner
            return owner.element
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            return self._infer_call(node)
        return None

    def _infer_call(self, node: ast.Call) -> Type | None:
        name = _name(node.func)
        if name == "getattr" and _name(node.args[0]) == "request":
            return Type(is_list=True)
        if name in {"items", "values"} and isinstance(node.func, ast.Attribute):
            return self._infer(node.func.value)
        lists = [found for found in map(self._infer, node.args) if found is not None and found.is_list]
        if not lists or name not in PASSING | {"enumerate", "zip"}:
            return None
        return lists[-1]


if __name__ == "__main__":
    for function, lines in examine().items():
        print(f"{function}  lines {', '.join(map(str, lines))}")
