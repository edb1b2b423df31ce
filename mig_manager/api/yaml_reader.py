"""Reading YAML so that nothing is lost silently and every place can be found again.

The readers of Kubernetes (sigs.k8s.io/yaml) and PyYAML both let the last of two equal keys win; here that is an
error. Anchors, aliases and merge keys work. JSON is read too, being YAML.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mig_manager.geometry.errors import LayoutError

if TYPE_CHECKING:
    import yaml

_TEXT = "tag:yaml.org,2002:str"
_MERGE = "tag:yaml.org,2002:merge"
_DATE = "tag:yaml.org,2002:timestamp"
_PLAIN = frozenset(
    f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "merge", "map", "seq")
)
"""What JSON has too; sets and bytes have no place in an object of Kubernetes."""

_NUMBERS = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})
_LONGEST_NUMBER = 100
"""How many characters of a number are read: the time that takes grows with their square."""

_DEEPEST = 100
_MOST_ALIASED = 100_000
"""How many values the aliases of a document may add: a few lines of them can stand for billions."""


@dataclass(frozen=True)
class Document:
    """One document of a file: its value, and the tree by which lines are found."""

    value: Any
    root: yaml.Node

    def line(self, path: str) -> int:
        """The line (from 1) of ``spec.profiles.two.gpus[0]``, or of the deepest part of that path that is there."""
        return _line(self.root, path)


def read_documents(text: str) -> Iterator[Document]:
    """The documents of a YAML text, empty ones left out.

    Raises LayoutError (InvalidYAML) with the line for what is not YAML, for a key that stands twice in one mapping
    and for a key that is not text.
    """
    import yaml

    # libyaml is ten times faster and not everywhere; both know the same methods.
    try:
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    except (UnicodeEncodeError, yaml.YAMLError) as error:
        # A terminal's encoding can let bytes through that are no characters.
        raise LayoutError("InvalidYAML", "not a text in UTF-8") from error
    try:
        while loader.check_node():
            root = loader.get_node()
            sizes: dict[int, int] = {}
            added = _check(root, sizes, set()) - len(sizes)
            if added > _MOST_ALIASED:
                raise LayoutError("InvalidYAML", f"aliases stand for {added} more values", "write out what is needed")
            value = _construct(loader, root)
            if value is not None:
                yield Document(value, root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark else ""
        raise LayoutError("InvalidYAML", f"{where}{error.problem or error.context or 'not YAML'}") from None
    except yaml.YAMLError as error:
        raise LayoutError("InvalidYAML", " ".join(str(error).split())) from None
    except RecursionError:  # libyaml has a limit of its own, PyYAML has not
        raise LayoutError("InvalidYAML", f"more than {_DEEPEST} levels deep") from None
    finally:
        loader.dispose()


def _construct(loader: Any, root: yaml.Node) -> Any:  # noqa: ANN401 - whatever the document holds
    try:
        return loader.construct_document(root)
    except (ValueError, LookupError) as error:  # an explicit tag that does not fit
        raise LayoutError("InvalidYAML", f"a value cannot be read: {error}") from None


def _check(node: yaml.Node, sizes: dict[int, int], around: set[int]) -> int:
    """How many values ``node`` stands for, aliases written out; ``sizes`` remembers that by node.

    Every mapping is looked at before merge keys are resolved, when equal keys are still two.
    """
    import yaml

    if id(node) in around:
        raise LayoutError("InvalidYAML", f"line {_number(node)}: this refers to itself", "write it out")
    if len(around) > _DEEPEST:
        raise LayoutError("InvalidYAML", f"line {_number(node)}: more than {_DEEPEST} levels deep")
    if id(node) in sizes:
        return sizes[id(node)]
    _check_tag(node)
    inside = around | {id(node)}
    size = 1
    if isinstance(node, yaml.SequenceNode):
        size += sum(_check(item, sizes, inside) for item in node.value)
    elif isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, item in node.value:
            if key.tag != _MERGE:
                _check_key(key, seen)
            size += _check(item, sizes, inside)
    sizes[id(node)] = size
    return size


def _check_tag(node: yaml.Node) -> None:
    if node.tag == _DATE:
        node.tag = _TEXT  # the readers of Kubernetes know no dates
    if node.tag not in _PLAIN:
        raise LayoutError(
            "InvalidYAML", f"line {_number(node)}: the tag {node.tag} has no meaning here", "leave it out"
        )
    if node.tag in _NUMBERS and len(node.value) > _LONGEST_NUMBER:
        problem = f"line {_number(node)}: a number of {len(node.value)} characters"
        raise LayoutError("InvalidYAML", problem, "write it in quotes if it is a name")


def _check_key(key: yaml.Node, seen: dict[str, int]) -> None:
    if key.tag != _TEXT:
        # YAML takes on, off, yes, no and numbers for other things than text.
        shown = f"the key {key.value}" if isinstance(key.value, str) else "a key here"
        raise LayoutError("InvalidYAML", f"line {_number(key)}: {shown} is not text", "write it in quotes")
    if key.value in seen:
        raise LayoutError(
            "InvalidYAML",
            f"line {_number(key)}: the key {key.value!r} stands here again, first in line {seen[key.value]}",
            "keep one of them",
        )
    seen[key.value] = _number(key)


def _number(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _line(node: yaml.Node, path: str) -> int:
    import yaml

    if isinstance(node, yaml.MappingNode):
        # Keys may contain dots ("all-1g.10gb"), so the longest key that begins the path is the one that is meant.
        fitting = [(key, value) for key, value in node.value if _starts(path, key.value)]
        if fitting:
            key, value = max(fitting, key=lambda item: len(item[0].value))
            rest = path[len(key.value) :].removeprefix(".")
            return _line(value, rest) if rest else _number(key)
    if isinstance(node, yaml.SequenceNode) and path.startswith("["):
        number, _, rest = path[1:].partition("]")
        if int(number) < len(node.value):
            return _line(node.value[int(number)], rest.removeprefix("."))
    return _number(node)


def _starts(path: str, key: object) -> bool:
    return isinstance(key, str) and path.startswith(key) and path[len(key) : len(key) + 1] in ("", ".", "[")
