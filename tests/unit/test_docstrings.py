"""Every public callable explains its arguments, its result and its errors, as a generator reads them.

griffe reads the docstrings in Google format. What it finds is compared with the signature, and with
the errors that the source raises.
"""

import ast
import builtins
import dataclasses
import enum
import functools
import importlib
import inspect
import logging
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import griffe
import pydantic

from mqpg import errors

MODULES = (
    "mqpg",
    "mqpg.alembic",
    "mqpg.values.choices",
    "mqpg.connection.dsn",
    "mqpg.contrib.django",
    "mqpg.embedded",
    "mqpg.errors",
    "mqpg.values.messages",
    "mqpg.migrate",
    "mqpg.protocols",
    "mqpg.connection.settings",
    "mqpg.tables",
    "mqpg.testing",
)
# What reaches the broker or a user's database, and therefore can raise.
REACHES = {"_ask", "_one", "_rows", "rows_in", "translate"}
ERRORS = {name for name in errors.__all__ if inspect.isclass(getattr(errors, name))}
PARTS = {
    "parameters": griffe.DocstringSectionKind.parameters,
    "attributes": griffe.DocstringSectionKind.attributes,
    "raises": griffe.DocstringSectionKind.raises,
    "returns": griffe.DocstringSectionKind.returns,
    "yields": griffe.DocstringSectionKind.yields,
}


@dataclasses.dataclass(frozen=True)
class Docs:
    """A docstring as griffe reads it."""

    text: str
    complaints: tuple[str, ...]
    sections: dict[str, list[Any]]

    def names(self, part: str) -> list[str]:
        """The arguments or attributes that a section names."""
        return [entry.name.lstrip("*") for entry in self.sections[part]]

    def raised(self) -> list[str]:
        """The exception classes that the section `Raises:` names."""
        return [str(entry.annotation) for entry in self.sections["raises"]]


@functools.cache
def read(text: str | None) -> Docs:
    """Parse a docstring, and collect what griffe has to complain about."""
    complaints: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: complaints.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("griffe")
    logger.addHandler(handler)
    try:
        found = griffe.Docstring(inspect.cleandoc(text or "")).parse(
            "google", returns_named_value=False, returns_multiple_items=False, warn_missing_types=False
        )
    finally:
        logger.removeHandler(handler)
    sections = {
        name: [entry for section in found if section.kind is kind for entry in section.value]
        for name, kind in PARTS.items()
    }
    return Docs(inspect.cleandoc(text or ""), tuple(complaints), sections)


def exported() -> Iterator[tuple[str, Any]]:
    """Every public name of the public modules that is defined in mqpg, once."""
    seen: set[int] = set()
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            value = getattr(module, name)
            if (inspect.isclass(value) or inspect.isfunction(value)) and id(value) not in seen:
                seen.add(id(value))
                yield f"{module.__name__}.{name}", value


def methods(cls: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class, those of its own bases included."""
    for name in sorted({name for base in cls.__mro__ if base.__module__.startswith("mqpg") for name in vars(base)}):
        if not name.startswith("_"):
            yield name, inspect.getattr_static(cls, name)


def unwrapped(value: Any) -> Any:
    """The function behind a property, a class method or a decorator."""
    if isinstance(value, property):
        value = value.fget
    if isinstance(value, functools.cached_property):
        value = value.func
    return inspect.unwrap(getattr(value, "__func__", value))


CLASSES = {name: value for name, value in exported() if inspect.isclass(value)}
FUNCTIONS = {name: value for name, value in exported() if inspect.isfunction(value)}
CALLABLES: dict[str, Callable[..., Any]] = {name: inspect.unwrap(value) for name, value in FUNCTIONS.items()}
PROPERTIES: dict[str, Callable[..., Any]] = {}
for class_name, cls in CLASSES.items():
    for member, value in methods(cls):
        if isinstance(value, (property, functools.cached_property)):
            PROPERTIES[f"{class_name}.{member}"] = unwrapped(value)
        elif inspect.isfunction(unwrapped(value)):
            CALLABLES[f"{class_name}.{member}"] = unwrapped(value)


def arguments(function: Callable[..., Any]) -> list[str]:
    """The names of a function's parameters, without `self` and `cls`."""
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def fields(cls: type) -> list[str] | None:
    """What an instance is made of where no `__init__` is written: the fields of a record."""
    if dataclasses.is_dataclass(cls) and "__init__" not in _written(cls):
        return [field.name for field in dataclasses.fields(cls)]
    if issubclass(cls, pydantic.BaseModel):
        return list(cls.model_fields)
    if issubclass(cls, enum.Enum):
        return [member.name for member in cls]
    return None


def _written(cls: type) -> set[str]:
    """The names of the methods that stand in the source of a class."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(node, ast.ClassDef)
    return {child.name for child in node.body if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))}


def well_formed(name: str, value: Any) -> Docs:
    """The docstring of a class or function, which begins with a sentence on a line of its own."""
    docs = read(vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__)
    assert not docs.complaints, name
    first, _, rest = docs.text.partition("\n")
    assert first.rstrip("`").endswith((".", ":")), name
    assert not rest or rest.startswith("\n"), name
    return docs


def test_the_walk_finds_the_library() -> None:
    assert len(CALLABLES) > 150
    for name in ("mqpg.Client.send", "mqpg.AsyncClient.send", "mqpg.consumer", "mqpg.protocols.Reconciler.run"):
        assert name in CALLABLES


def test_arguments_and_result() -> None:
    for name, function in CALLABLES.items():
        docs = well_formed(name, function)
        assert docs.names("parameters") == arguments(function), name
        for parameter in docs.sections["parameters"]:
            default = inspect.signature(function).parameters[parameter.name.lstrip("*")].default
            if default is None and "An argument that is None" not in docs.text:
                assert "None" in parameter.description, f"{name} does not say what {parameter.name}=None means"
        result = inspect.signature(function).return_annotation
        assert result is not inspect.Signature.empty, name
        expected = result in (None, "None", "Self", "NoReturn") or docs.sections["returns"] or docs.sections["yields"]
        assert expected, f"{name} returns {result}, and its docstring does not say what that is"


def test_properties() -> None:
    for name, function in PROPERTIES.items():
        well_formed(name, function)


def test_classes() -> None:
    for name, cls in CLASSES.items():
        docs = well_formed(name, cls)
        listed = fields(cls)
        if listed is not None:
            assert docs.names("attributes") == listed, name
            continue
        writers = [base for base in cls.__mro__ if base.__module__.startswith("mqpg") and "__init__" in _written(base)]
        expected = arguments(vars(writers[0])["__init__"]) if writers else []
        assert docs.names("parameters") == expected, name


def test_documented_errors_exist() -> None:
    for name, documented in {**CALLABLES, **PROPERTIES, **CLASSES}.items():
        for error in read(documented.__doc__).raised():
            found = getattr(errors, error, None) or getattr(builtins, error, None)
            assert inspect.isclass(found), f"{name}: {error}"
            assert issubclass(found, Exception), f"{name}: {error}"


def test_errors_are_documented() -> None:
    for name, function in CALLABLES.items():
        named = read(function.__doc__).raised()
        documented = [getattr(errors, error, None) or getattr(builtins, error) for error in named]
        raised, reaches = _raised_in(function, set())
        for error in sorted(raised):
            assert any(issubclass(getattr(errors, error), known) for known in documented), f"{name} raises {error}"
        assert documented or not reaches, f"{name} reaches a database, and its docstring names no error"


def _raised_in(function: Callable[..., Any], seen: set[str]) -> tuple[set[str], bool]:
    """The errors that a function raises by name, and whether it reaches a database.

    Functions of the same module and methods of the same object are followed. What the function
    catches does not count, and neither does what it only hands to another one.
    """
    if function.__qualname__ in seen:
        return set(), False
    seen.add(function.__qualname__)
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef))
    found = [_raised_by(node, function, seen) for node in definition.body]
    return set().union(*(raised for raised, _ in found)), any(reaches for _, reaches in found)


def _raised_by(node: ast.AST, function: Callable[..., Any], seen: set[str]) -> tuple[set[str], bool]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        return set(), False
    raised: set[str] = set()
    reaches = False
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        raised |= {_last_name(node.exc.func)} & ERRORS
    if isinstance(node, ast.Call):
        reaches = _last_name(node.func) in REACHES
        called = _followed(function, node.func)
        if called is not None:
            more, reach = _raised_in(called, seen)
            raised, reaches = raised | more, reaches or reach
    for child in ast.iter_child_nodes(node):
        more, reach = _raised_by(child, function, seen)
        if isinstance(node, ast.Try) and child in node.body:
            more = {name for name in more if not any(_catches(handler, name) for handler in node.handlers)}
        raised, reaches = raised | more, reaches or reach
    return raised, reaches


def _catches(handler: ast.ExceptHandler, name: str) -> bool:
    """Whether a handler ends an error of this name; one that raises anything does not."""
    if handler.type is None or any(isinstance(node, ast.Raise) for node in ast.walk(handler)):
        return False
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    caught = [getattr(errors, _last_name(one), None) or getattr(builtins, _last_name(one), None) for one in types]
    return any(inspect.isclass(one) and issubclass(getattr(errors, name), one) for one in caught)


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _followed(function: Callable[..., Any], called: ast.expr) -> Callable[..., Any] | None:
    module = inspect.getmodule(function)
    found: Any = None
    if isinstance(called, ast.Name):
        found = getattr(module, called.id, None)
    elif isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "self":
        owner = getattr(module, function.__qualname__.split(".")[0], None)
        found = inspect.getattr_static(owner, called.attr, None) if inspect.isclass(owner) else None
    found = unwrapped(found)
    return found if inspect.isfunction(found) and inspect.getmodule(found) is module else None
