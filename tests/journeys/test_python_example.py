"""The example of the documentation runs as it is written."""

import ast
import re
from pathlib import Path

from workspaces import Workspace

from toolkit.report.display import capture_outputs

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def shown_by(code: str, names: dict[str, object]) -> list[str]:
    """Run code as the cells of a notebook, one a statement, and return what each object shows."""
    told = []
    for statement in ast.parse(code).body:
        if isinstance(statement, ast.Expr):
            value = eval(compile(ast.Expression(statement.value), PAGE, "eval"), names)  # noqa: S307 - our own page
            with capture_outputs() as shown:
                getattr(value, "_ipython_display_", lambda: None)()
            told.append(" ".join(str(data.get("text/plain")) for data in shown))
        else:
            exec(compile(ast.Module([statement], []), PAGE, "exec"), names)  # noqa: S102 - our own page
    return told


def test_the_example_is_a_dry_run_and_then_a_reset(workspace: Workspace) -> None:
    """As it comes it changes nothing; with the fingerprint that it shows it changes just that."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    group = workspace.group()
    before = workspace.operator.held(group)
    names: dict[str, object] = {
        "cluster": "test",
        "fleet_file": workspace.fleet_file,
        "state": workspace.operator.state,
        "groups": [group],
        "mode": "to-offset",
        "value": "2",
        "topics": [],
        "dry_run": True,
        "approve": "",
        "reason": "",
        "overrides": [],
        "limits": [],
    }

    change, decision, _, outcome = shown_by(code, names)

    assert f"reset {group}" in change
    assert "Dry run: nothing was changed" in decision
    assert "Nothing was applied" in outcome
    assert before == workspace.operator.held(group)

    (fingerprint,) = re.findall(r"Fingerprint: (\S+)", decision)
    approval = {"dry_run": False, "approve": fingerprint, "reason": "a test"}
    *_, outcome = shown_by(code, names | approval)

    assert "2 done, read back from the cluster" in outcome
    assert "can be undone" in outcome
    assert {2} == {at.offset for at in workspace.operator.held(group)[group].values()}
