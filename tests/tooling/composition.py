"""Find code that a composition root makes unnecessary: other modules that connect, complete or distinguish parts.

`test_composition.py` compares the findings with the list in `composition.toml`.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

MAX_PARAMETERS = 7
COMPOSED = (
    "coordinator/broker/", "coordinator/cluster/daemon/", "coordinator/control/", "coordinator/runtime/",
)  # fmt: skip
OWN_PACKAGES = {"protocol", "storage", "coordinator"}
SERVER = "coordinator.broker.server"
SERVER_OWNERS = (
    "coordinator/broker/composition_root.py",
    "coordinator/control/namespaces/",
    "coordinator/daemon.py",
)
"""They create a server, or open, stop and replace it."""


class Module:
    """A module of the product, with its path from the root of the repository."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.name = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        self.tree = ast.parse(text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the syntax tree: one walk for all rules."""
        return list(ast.walk(self.tree))


def wide_constructors(module: Module) -> Iterator[str]:
    """A constructor with many parameters connects a class with too many others. Data classes have none."""
    for cls in (node for node in module.nodes if isinstance(node, ast.ClassDef)):
        for node in cls.body:
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                arguments = node.args
                count = len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs) - 1
                if count > MAX_PARAMETERS:
                    yield f"{module.path}: {cls.name}, {count}"


def missing_attributes(module: Module) -> Iterator[str]:
    """An attribute that may be missing is created too late."""
    for node in module.nodes:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args):
            continue
        is_optional = node.func.id == "hasattr" or (node.func.id == "getattr" and len(node.args) == 3)
        if is_optional and isinstance(node.args[0], ast.Name) and node.args[0].id == "self":
            yield f"{module.path}: {ast.unparse(node)}"


def outside_assignments(module: Module) -> Iterator[str]:
    """The attributes of a part are assigned by its own methods, or by the function that creates it."""
    if module.path.startswith(COMPOSED):
        for function in _functions(module.tree):
            nodes = list(ast.walk(function))
            created = {name for node in nodes for name in _created_names(node)}
            for target in (target for node in nodes for target in _assigned_attributes(node)):
                owner = ast.unparse(target.value)
                if owner not in ("self", "cls") and owner.partition(".")[0] not in created:
                    yield f"{module.path}: {owner}.{target.attr}"


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The outermost functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        else:
            yield from _functions(node)


def _created_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
        for target in node.targets:
            yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name))


def _assigned_attributes(node: ast.AST) -> Iterator[ast.Attribute]:
    targets = node.targets if isinstance(node, ast.Assign) else []
    targets = [node.target] if isinstance(node, ast.AnnAssign | ast.AugAssign) else targets
    for target in targets:
        elements = target.elts if isinstance(target, ast.Tuple) else [target]
        yield from (each for each in elements if isinstance(each, ast.Attribute))


def membership_branches(module: Module) -> Iterator[str]:
    """Kinds of memberships and of replication are different classes, not branches."""
    is_runtime = module.path.startswith("coordinator/runtime/")
    for node in module.nodes if module.path.startswith("coordinator/") else ():
        if isinstance(node, ast.Compare) and _last_name(node.left) in ("cluster", "_cluster"):
            if any(isinstance(each, ast.Constant) and each.value is None for each in node.comparators):
                yield f"{module.path}: {ast.unparse(node)}"
        elif is_runtime and isinstance(node, ast.Attribute) and node.attr == "is_replicated":
            yield f"{module.path}: {ast.unparse(node)}"


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def typing_imports(module: Module) -> Iterator[str]:
    """An import only for types hides a circle, unless a function of the module imports the same module late."""
    late = {name for function in _functions(module.tree) for name in _list_imports(ast.walk(function))}
    yield from (f"{module.path}: {name}" for name in list_typing_imports(module) if name not in late)


def list_typing_imports(module: Module) -> Iterator[str]:
    """Our own modules that a module imports only for types."""
    for block in module.nodes:
        if isinstance(block, ast.If) and _last_name(block.test) == "TYPE_CHECKING":
            for node in block.body:
                if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OWN_PACKAGES:
                    yield str(node.module)


def server_imports(module: Module) -> Iterator[str]:
    """Parts take `Services`, or less. Only the owners of a server know `Server`."""
    for node in () if module.path.startswith(SERVER_OWNERS) else module.nodes:
        if isinstance(node, ast.ImportFrom) and node.module == SERVER:
            yield from (f"{module.path}: {each.name}" for each in node.names)


RULES = (
    wide_constructors,
    missing_attributes,
    outside_assignments,
    membership_branches,
    typing_imports,
    server_imports,
)


def list_imports(module: Module) -> set[str]:
    """The imports of a module by name, also those for types and in functions."""
    return _list_imports(module.nodes)


def _list_imports(nodes: Iterable[ast.AST]) -> set[str]:
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return found


def find_circles(imports: Mapping[str, set[str]]) -> list[str]:
    """The circles among modules, each as their names in alphabetical order."""
    known = {name: (found & imports.keys()) - {name} for name, found in imports.items()}
    # A module that imports another one also imports its packages, which are empty.
    reached = {name: _reachable(name, known) for name in known}
    circles = {
        frozenset(other for other in found if name in reached[other]) for name, found in reached.items()
    }
    return sorted(", ".join(sorted(circle)) for circle in circles if circle)


def _reachable(start: str, imports: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(imports[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += imports[name]
    return found
