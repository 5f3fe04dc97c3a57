"""The tree is the architecture: who may import whom, what files are called, how large they get."""

import ast
import builtins
import keyword
import re
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import TypeGuard

import toolkit

ROOT = Path(toolkit.__file__).parent.parent
MODULES = sorted([*ROOT.glob("toolkit/**/*.py"), *ROOT.glob("widgets/**/*.py")])

MAX_MODULE_LINES, MAX_FUNCTION_LINES = 700, 50
MAX_PUBLIC_NAMES = 33
# A smaller module needs a reason: commands and journeys are one each, a public name has its own
# home, a program is started by its name, or several modules need it.
SMALL_MODULE_LINES = 60
ONE_EACH = ("toolkit.cli.", "toolkit.journeys.")
SMALL_FOR_A_REASON = {
    "toolkit.report.deletable_groups": "the type that a public function returns",
    "toolkit.runner.interruptible_kernel": "ipykernel loads it by name, in another process",
    "widgets.record_saver": "a widget, which only JupyterLab loads",
}
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"}
KAFKA_CLIENTS = {"kafka", "confluent_kafka"}
# The sandbox's applications and its raw members play the user's programs, which speak to Kafka.
MAY_USE_A_CLIENT = ("toolkit/kafka_io/", "toolkit/sandbox/")
RECORDS = {"toolkit.model", "toolkit.plan", "toolkit.errors"}
READERS = RECORDS | {"toolkit.planning", "toolkit.kafka_io", "toolkit.storage"}
ENGINE = READERS | {"toolkit.live", "toolkit.operate", "toolkit.spark", "toolkit.report"}

FRONT_ENDS = RECORDS | {
    *("toolkit.session", "toolkit.journeys", "toolkit.runner", "toolkit.runbooks"),
    *("toolkit.report", "toolkit.spark", "toolkit.storage", "toolkit.kafka_io"),
    *("toolkit.cli", "toolkit.sandbox", "toolkit.templates"),
}

# DESIGN, "who may import whom"; a part that is not listed may import anything in toolkit.
MAY_IMPORT = {
    "toolkit.errors": set(),
    "toolkit.model": {"toolkit.errors"},
    "toolkit.plan": {"toolkit.model", "toolkit.errors"},
    "toolkit.planning": RECORDS,
    "toolkit.kafka_io": RECORDS,
    "toolkit.storage": RECORDS,
    "toolkit.live": READERS,
    "toolkit.operate": READERS | {"toolkit.live"},
    "toolkit.spark": READERS,
    "toolkit.report": RECORDS | {"toolkit.planning", "toolkit.storage"},
    # The card of a decision is a widget, which only JupyterLab asks for; the next step is a
    # notebook.
    "toolkit.journeys": ENGINE | {"widgets", "toolkit.templates"},
    "toolkit.session": ENGINE | {"toolkit.journeys"},
    "toolkit.templates": {"toolkit.errors", "toolkit.storage"},
    "toolkit.runner": ENGINE | {"toolkit.journeys", "toolkit.templates"},
    "toolkit.runbooks": ENGINE | {"toolkit.runner", "toolkit.journeys", "toolkit.templates"},
    # Front ends: what to plan and how to change a cluster is asked of the journeys.
    "toolkit.cli": FRONT_ENDS,
    "toolkit.sandbox": FRONT_ENDS,
    # Handed data and callables: what a widget does is done by whoever gave it the callable.
    "widgets": RECORDS | {"toolkit.planning", "toolkit.report"},
}
STANDARD_LIBRARY_ONLY = RECORDS
# What docstrings name and our code does not.
ELSEWHERE = {
    "itertools.batched",
    "java.util.Properties.load",
    "org.apache.kafka.common.protocol.Errors",
}
PURE_MAY_USE = {"numpy", "pandas", "toolkit"}
WIDGETS_MAY_USE = {"ipywidgets", "pandas", "plotly", "toolkit", "traitlets", "widgets"}


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def part_of(module: str) -> str:
    """Return the part of the house that a module belongs to: toolkit.planning, widgets."""
    parts = module.split(".")
    return parts[0] if parts[0] == "widgets" else ".".join(parts[:2])


def imports(path: Path) -> Iterator[str]:
    """Yield what a file imports, also inside functions, but not what only a type checker sees."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import of {node.module}"
            if node.module == "toolkit":
                yield from (f"toolkit.{alias.name}" for alias in node.names)
            else:
                yield node.module or ""


def needed_modules(path: Path) -> set[str]:
    """Return the modules that a file names in imports, also for a type checker alone."""
    nodes = [*ast.walk(ast.parse(path.read_text("utf-8")))]
    whole = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    parts = [
        (node.module or "", alias.name)
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    return whole | {module for module, _ in parts} | {f"{module}.{name}" for module, name in parts}


def forbidden_imports(path: Path) -> Iterator[str]:
    """Yield what a file imports although the design does not let it."""
    own = part_of(name_of(path))
    allowed = MAY_IMPORT.get(own)
    for imported in imports(path):
        top = imported.split(".")[0]
        is_standard = top in sys.stdlib_module_names
        if (
            (top == "widgets" and "widgets" not in {own, *(allowed or ())})
            or (own == "widgets" and not is_standard and top not in WIDGETS_MAY_USE)
            or (
                top == "toolkit"
                and allowed is not None
                and part_of(imported) not in allowed | {own}
            )
            or (own in STANDARD_LIBRARY_ONLY and not is_standard and top != "toolkit")
            or (own == "toolkit.planning" and not is_standard and top not in PURE_MAY_USE)
        ):
            yield f"{name_of(path)} must not import {imported}"


def test_imports_follow_the_design() -> None:
    """A module imports only the parts of the house that the design lets it."""
    assert [] == [one for path in MODULES for one in forbidden_imports(path)]


def test_tests_make_clients_that_log() -> None:
    """Tests take librdkafka's clients from `clients.py`; the programs they start make their own."""
    files = [path for path in ROOT.glob("tests/**/*.py") if "consumer_processes" not in path.parts]
    imported = [
        (path.name, alias.name)
        for path in files
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("confluent_kafka")
        for alias in node.names
    ]

    assert [] == [one for one in imported if one[1] in {"AdminClient", "Consumer", "Producer"}]


def test_no_module_needs_itself() -> None:
    """No import leads back to its module, not even a lazy one or one for type checkers."""
    modules = {name_of(path): path for path in MODULES}
    needs = {name: needed_modules(path) & modules.keys() - {name} for name, path in modules.items()}
    # What needs nothing that is left cannot be part of a circle.
    while free := {name for name, found in needs.items() if not found & needs.keys()}:
        needs = {name: found for name, found in needs.items() if name not in free}

    assert {} == needs


def test_one_door_to_kafka() -> None:
    """Only kafka_io, and the sandbox's stand-ins for user programs, import a Kafka client."""
    others = [
        path
        for path in MODULES
        if not path.relative_to(ROOT).as_posix().startswith(MAY_USE_A_CLIENT)
    ]

    assert [] == [
        (name_of(path), imported)
        for path in others
        for imported in imports(path)
        if imported.split(".")[0] in KAFKA_CLIENTS
    ]


def test_journeys_leave_displays_to_report() -> None:
    """A journey returns a report that shows itself; only a running change has its own view."""
    journeys = ROOT / "toolkit" / "journeys"

    assert [] == [
        f"{name_of(path)}.{node.name}"
        for path in journeys.glob("**/*.py")
        if journeys / "change" not in path.parents
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
        and (node.name in {"__repr__", "_ipython_display_"} or node.name.startswith("show_"))
    ]


def test_planning_asks_no_clock_and_reads_no_environment() -> None:
    """A rule gets its facts as arguments: no clock, environment, file or network inside."""
    forbidden = {"os", "time", "pathlib", "subprocess", "socket", "random", "io", "sys"}
    for path in ROOT.glob("toolkit/planning/**/*.py"):
        assert not forbidden & set(imports(path)), path
        assert ".now(" not in path.read_text("utf-8"), path
        assert "open(" not in path.read_text("utf-8"), path


def test_file_names_have_a_subject() -> None:
    """No file has a name without a meaning."""
    assert not EMPTY_NAMES & {path.stem for path in MODULES}


def test_class_names_are_unique() -> None:
    """A reader of a name knows which class is meant."""
    places: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lstrip("_"), []).append(name_of(path))

    assert {} == {name: found for name, found in places.items() if len(found) > 1}


# The functions that decide the same thing in several places, by the rule.
RULES = {
    "the lag of a partition": "lag_of",
    "the lag of many partitions": "with_lag",
    "the lag of a group": "lag_by_group",
    "since when a group is unused": "last_use_of",
    "whether a group can be checked for unsubscribed offsets": "uncheckable_reason",
    "whether changes of a group can be planned": "is_plannable",
    "a reason is required": "lacks_reason",
    "what blocks a plan": "blocking",
    "a plan is approved": "check_approval",
    "a committed offset is another one than in the plan": "moved_offsets",
    "a move was written over": "is_written_over",
    "which answers are worth another try": "is_worth_retrying",
    "a topic was re-created": "is_another_topic",
    "what a commit in the offsets topic says": "decode_commit_value",
}


def test_a_rule_is_written_once() -> None:
    """Each has one definition, and all users call that."""
    defined: dict[str, list[str]] = {}
    called: dict[str, set[str]] = {}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef):
                defined.setdefault(node.name, []).append(name_of(path))
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    called.setdefault(alias.name, set()).add(name_of(path))

    assert {} == {rule: defined.get(n) for rule, n in RULES.items() if len(defined[n]) != 1}
    assert {} == {rule: name for rule, name in RULES.items() if not called.get(name)}


def test_names_in_docstrings_exist() -> None:
    """A word in backticks is a name or a text in the code, a module, or one of Kafka or Python."""
    names, texts = {*dir(builtins), *keyword.kwlist, "__consumer_offsets"}, set[str]()
    quoted: dict[str, str] = {}
    for path in MODULES:
        tree = ast.parse(path.read_text("utf-8"))
        nodes = [*ast.walk(tree)]
        docstrings = [ast.get_docstring(node, clean=False) for node in nodes if _may_have(node)]
        names |= {path.stem, path.parent.name}
        names |= {node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef)}
        names |= {node.id for node in nodes if isinstance(node, ast.Name)}
        names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        names |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        texts |= {node.value for node in nodes if _is_text(node) and node.value not in docstrings}
        words = re.findall(r"`([a-z_][\w.]*)`", "\n".join(filter(None, docstrings)))
        quoted |= {word: str(path.relative_to(ROOT)) for word in words}
    known = names.union(re.findall(r"\w+", "\n".join(texts)))
    unknown = [
        f"{path}: {word}"
        for word, path in quoted.items()
        if not known.issuperset(word.removesuffix(".py").split(".")) and word not in ELSEWHERE
    ]

    assert [] == unknown


def _may_have(node: ast.AST) -> bool:
    return isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)


def _is_text(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_sizes_stay_within_the_budget(record_property: Callable[[str, object], None]) -> None:
    """No module over 700 lines, no function over 50; the medians go into the test report."""
    modules = {name_of(path): len(path.read_text("utf-8").splitlines()) for path in MODULES}
    functions = {
        f"{name_of(path)}.{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    for what, sizes in (("module", modules), ("function", functions)):
        largest = max(sizes, key=lambda name: sizes[name])
        record_property(f"median_{what}_lines", statistics.median(sizes.values()))
        record_property(f"largest_{what}", f"{largest}: {sizes[largest]} lines")

    assert {} == {name: n for name, n in modules.items() if n > MAX_MODULE_LINES}
    assert {} == {name: n for name, n in functions.items() if n > MAX_FUNCTION_LINES}


def test_small_modules_have_a_reason() -> None:
    """A module under 60 lines is a command, a journey, public, a program, or used by several."""
    stub = ast.parse((ROOT / "toolkit/__init__.pyi").read_text("utf-8"))
    public = {f"toolkit.{node.module}" for node in stub.body if isinstance(node, ast.ImportFrom)}
    users = Counter(chain.from_iterable(map(needed_modules, MODULES)))
    small = {
        name_of(path)
        for path in MODULES
        if path.name != "__init__.py"
        and len((source := path.read_text("utf-8")).splitlines()) < SMALL_MODULE_LINES
        and not name_of(path).startswith(ONE_EACH)
        and "__main__" not in source
        and name_of(path) not in public
        and users[name_of(path)] < 2
    }

    assert {*SMALL_FOR_A_REASON} == small


def test_public_names_can_be_loaded() -> None:
    """There are about thirty, in one list."""
    names: list[str] = list(toolkit.__all__)
    assert len(names) <= MAX_PUBLIC_NAMES
    for name in names:
        assert getattr(toolkit, name) is not None


def test_importing_the_package_is_cheap() -> None:
    """Importing toolkit loads no Spark, no Jupyter, no pandas and no Kafka client."""
    heavy = {"pyspark", "IPython", "ipykernel", "pandas", "kafka", "confluent_kafka", "plotly"}
    script = f"import sys, toolkit; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60
    )

    assert "[]" == done.stdout.strip()


def test_every_test_states_its_claim() -> None:
    """Each test has a docstring that says in one sentence what must hold."""
    assert [] == [
        f"{path.relative_to(ROOT)}::{node.name}"
        for path in sorted(ROOT.glob("tests/**/test_*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
