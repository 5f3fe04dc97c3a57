"""
offsetbook: walk Kafka consumer groups from a question to a verified answer.

The public names are in `__init__.pyi`. Each is loaded at its first use, so that importing this
package loads no Spark, Jupyter or Kafka client.
"""

from collections.abc import Callable
from functools import cache
from typing import Any


def __getattr__(name: str) -> Any:
    load, _, names = _public_names()
    return names if name == "__all__" else load(name)


def __dir__() -> list[str]:
    return _public_names()[1]()


@cache
def _public_names() -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    # Commands, keepers and Spark's workers use no public name, and start without these.
    import ast  # noqa: PLC0415
    import pkgutil  # noqa: PLC0415

    import lazy_loader  # noqa: PLC0415

    # Not `attach_stub`, which wants a file: Spark's workers import this package from a zip.
    stub = ast.parse(pkgutil.get_data(__name__, "__init__.pyi") or b"")
    homes: dict[str, list[str]] = {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom):
            homes.setdefault(node.module or "", []).extend(alias.name for alias in node.names)
    return lazy_loader.attach(__name__, submod_attrs=homes)
