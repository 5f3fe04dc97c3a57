from pathlib import Path

import pytest
from small_notebooks import MakeNotebook

from toolkit.errors import ParameterError
from toolkit.runner.parameters import check_parameters, parse_parameters, read_parameters

DECLARED = """\
from typing import Literal
cluster: str = "eu"  # name in the fleet file, a = b
groups: list[str] = []
topics: list[str] = []
older_than_days: int = 7  # days
share: float = 0.5
apply: bool = False
topic: str | None = None
to: Literal["earliest", "latest"] = "latest"
"""


@pytest.fixture
def notebook(make_notebook: MakeNotebook) -> Path:
    """Return a notebook that declares a parameter of every type."""
    return make_notebook(parameters=DECLARED)


def parsed(notebook: Path, *given: tuple[str, str]) -> dict[str, object]:
    return parse_parameters(read_parameters(notebook), given, notebook="n.ipynb")


def test_reads_every_line(notebook: Path, make_notebook: MakeNotebook) -> None:
    """Every declaration is read with type, default and help, also unions and a help with `=`."""
    parameters = read_parameters(notebook)

    assert [(p.name, p.type.name, p.default) for p in parameters] == [
        ("cluster", "str", "eu"),
        ("groups", "list[str]", []),
        ("topics", "list[str]", []),
        ("older_than_days", "int", 7),
        ("share", "float", 0.5),
        ("apply", "bool", False),
        ("topic", "str | None", None),
        ("to", "Literal['earliest', 'latest']", "latest"),
    ]
    assert parameters[0].help == "name in the fleet file, a = b"
    assert read_parameters(make_notebook("1 + 1")) == ()  # there is no parameters cell


@pytest.mark.parametrize(
    "line",
    [
        "x = 1",
        "x: int",
        "x: bytes = b''",
        "x: int = 2 * 3",
        "x: int = 'seven'",
        "print(1)",
        "x: int =",
        "x: int = " + "(" * 500,
        "x: int = " + "-" * 99_999 + "1",
        "x\0",
        "x: int = {[]: 1}",
    ],
)
def test_refuses_other_lines(make_notebook: MakeNotebook, line: str) -> None:
    """A line of another shape is refused, because its parameter could not be checked."""
    place = "(line 1 of the parameters cell|parameter x must be)"
    with pytest.raises(ParameterError, match=rf"20_example\.ipynb: {place}"):
        read_parameters(make_notebook(parameters=line))


PASTED = "groups = ['one', 'two']\nolder_than_days = 9"


def test_pasted_lines_set_declared_parameters(make_notebook: MakeNotebook) -> None:
    """A line `name = value` counts where the name is declared: above it, or by the package."""
    values = {p.name: p.default for p in read_parameters(make_notebook(parameters=DECLARED))}
    pasted = read_parameters(make_notebook(parameters=f"{DECLARED}\n{PASTED}"))
    assert values | {"groups": ["one", "two"], "older_than_days": 9} == {
        p.name: p.default for p in pasted
    }
    assert "int" == next(p.type.name for p in pasted if p.name == "older_than_days")

    copy = make_notebook(parameters="groups = ['x']", name="40_pause_partitions-mine")
    assert [("groups", ["x"], "name of one live group; empty: select it below")] == [
        (p.name, p.default, p.help) for p in read_parameters(copy)
    ]
    for wrong in ("groups = 'one'", "group = ['x']", "gruop = 'x'"):
        with pytest.raises(ParameterError):
            read_parameters(make_notebook(parameters=f"{DECLARED}\n{wrong}"))


@pytest.mark.parametrize("name", ["password", "sasl_password", "api_key", "TOKEN", "client_secret"])
def test_refuses_secrets(make_notebook: MakeNotebook, notebook: Path, name: str) -> None:
    """A parameter that looks like a secret is refused, declared or given, with the place for it."""
    with pytest.raises(ParameterError, match=r"fleet file"):
        read_parameters(make_notebook(parameters=f'{name}: str = ""', name="21_secret"))
    with pytest.raises(ParameterError, match=r"fleet file"):
        parsed(notebook, (name, "x"))


@pytest.mark.parametrize("name", ["author", "tokenizer", "bypass", "partition_keys", "key_format"])
def test_harmless_names_pass(make_notebook: MakeNotebook, name: str) -> None:
    """A name that only contains the letters of a secret word is no secret."""
    assert read_parameters(make_notebook(parameters=f'{name}: str = ""'))[0].name == name


@pytest.mark.parametrize(
    ("name", "texts", "value"),
    [
        ("cluster", ["007"], "007"),
        ("cluster", ["false"], "false"),
        ("cluster", [""], ""),
        ("groups", ["a,b, c"], ["a", "b", "c"]),
        ("groups", [""], []),
        ("groups", ["a,b", "c"], ["a,b", "c"]),  # repeated, so that a name may hold a comma
        ("groups", ["a:0,1"], ["a:0", "1"]),
        ("topics", ["a:0, 1,3-5,b,7"], ["a:0,1,3-5", "b", "7"]),
        ("older_than_days", ["-3"], -3),
        ("share", ["1e-3"], 0.001),
        ("apply", ["false"], False),
        ("apply", ["True"], True),
        ("topic", ["None"], "None"),
        ("topic", [""], None),
        ("to", ["earliest"], "earliest"),
    ],
)
def test_text_becomes_declared_type(
    notebook: Path, name: str, texts: list[str], value: object
) -> None:
    """The declared type alone decides what a text means."""
    found = parsed(notebook, *((name, text) for text in texts))

    assert found == {name: value}
    assert type(found[name]) is type(value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("older_than_days", text) for text in ("7.0", "1_000", "٣", "")),
        *(("share", text) for text in ("nan", "inf", "1e999", "1_0.5")),
        *(("apply", text) for text in ("no", "1", "")),
        ("to", "middle"),
    ],
)
def test_text_of_wrong_type(notebook: Path, name: str, text: str) -> None:
    """A text that is not of the declared type is refused, with name, type and text."""
    with pytest.raises(ParameterError) as refused:
        parsed(notebook, (name, text))

    assert f"parameter {name} must be" in str(refused.value)
    assert repr(text) in str(refused.value)


def test_repeated_scalar(notebook: Path) -> None:
    """A single value that is given twice is refused as ambiguous."""
    with pytest.raises(ParameterError, match="must be str"):
        parsed(notebook, ("cluster", "eu"), ("cluster", "us"))


def test_unknown_name(notebook: Path) -> None:
    """A misspelt name is refused with the notebook, the known names and the nearest one."""
    with pytest.raises(ParameterError) as refused:
        check_parameters(read_parameters(notebook), {"aply": True}, notebook="20_x.ipynb")

    assert ("20_x.ipynb: unknown parameter 'aply'; known parameters: cluster, groups") in str(
        refused.value
    )
    assert "'apply'" in refused.value.hint
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [("apply", 1), ("apply", "false"), ("older_than_days", True), ("cluster", 7), ("groups", "a")],
)
def test_value_of_wrong_type(notebook: Path, name: str, value: object) -> None:
    """A typed value is not bent: 1 is no bool, True no number, and a text is no list."""
    with pytest.raises(ParameterError, match=f"parameter {name} must be"):
        check_parameters(read_parameters(notebook), {name: value}, notebook="n.ipynb")
