"""What the buttons of next steps open, without a browser."""

from pathlib import Path

import ipywidgets

from toolkit.model.names import ExactName
from toolkit.report.next_step_list import ShownStep
from widgets.next_steps import NextSteps

NAMES = ("billing", "pay*", "<b>reports")


def opened_by(*groups: str) -> tuple[NextSteps, list[ShownStep]]:
    """Return the buttons of a step for these groups, and the steps that they have opened."""
    opened: list[ShownStep] = []

    def open_copy(step: ShownStep) -> Path:
        opened.append(step)
        return Path("copy.ipynb")

    asked = {"groups": [*map(ExactName, groups)], "unsubscribed": True}
    step = ShownStep("Delete them", "They are not read.", "60_delete_offsets", asked)
    return NextSteps([step], open_copy), opened


def test_some_of_the_groups_of_a_step_are_chosen() -> None:
    """A step for several groups is opened for those that are selected, or for all of them."""
    steps, opened = opened_by(*NAMES)
    children = steps.view.children
    (choice,) = (one for one in children if isinstance(one, ipywidgets.SelectMultiple))
    (button,) = (one for one in children if isinstance(one, ipywidgets.Button))

    button.click()
    choice.set_state({"index": [1, 2]})
    button.click()

    told = [step.parameters for step in opened]
    assert [["billing", '"pay*"', "<b>reports"], ['"pay*"', "<b>reports"]] == [
        parameters["groups"] for parameters in told
    ]
    assert all(parameters["unsubscribed"] for parameters in told)
    assert None is steps.error


def test_of_one_group_there_is_no_choice() -> None:
    """Then the button opens the step as it is."""
    steps, opened = opened_by("billing")
    kinds = {type(one) for one in steps.view.children}
    assert ipywidgets.SelectMultiple not in kinds

    (button,) = (one for one in steps.view.children if isinstance(one, ipywidgets.Button))
    button.click()

    assert [["billing"]] == [step.parameters["groups"] for step in opened]
