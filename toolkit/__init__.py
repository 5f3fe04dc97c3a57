"""
offsetbook: walk Kafka consumer groups from a question to a verified answer.

The public names are in `__init__.pyi`. Each is loaded at its first use, so that importing this
package loads no Spark, Jupyter or Kafka client.
"""

import ast
import pkgutil

import lazy_loader

# Not `attach_stub`, which wants a file: Spark's workers import this package from a zip.
_STUB = ast.parse(pkgutil.get_data(__name__, "__init__.pyi") or b"")
_HOMES: dict[str, list[str]] = {}
for _node in _STUB.body:
    if isinstance(_node, ast.ImportFrom):
        _HOMES.setdefault(_node.module or "", []).extend(alias.name for alias in _node.names)

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=_HOMES)
