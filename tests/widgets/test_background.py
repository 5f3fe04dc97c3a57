"""A long action in the background."""

from __future__ import annotations

import threading

from widgets.background import BackgroundRun, RunningJob


def test_what_it_returns_and_what_it_raises_is_kept() -> None:
    """A result is on the object, and so is an error, which is shown in place and escaped."""
    action = BackgroundRun("Reading")
    assert action.start(lambda _: 7)
    assert action.wait(10)
    assert (7, "done", None) == (action.result, action.state, action.error)

    def fail(_: RunningJob) -> None:
        raise ValueError("<img src=x>")

    assert action.start(fail)
    assert action.wait(10)
    assert ("failed", "<img src=x>") == (action.state, str(action.error))
    assert "&lt;img src=x&gt;" in action.error_box.value
    assert "<img" not in action.error_box.value


def test_an_error_at_the_end_is_not_swallowed() -> None:
    """What is done with the result may fail too, and that is seen."""
    action = BackgroundRun("Reading")

    def fail() -> None:
        raise KeyError("afterwards")

    action.start(lambda _: 7, then=fail)
    assert action.wait(10)
    assert isinstance(action.error, KeyError)
    assert "afterwards" in action.error_box.value


def test_one_at_a_time_with_progress_and_a_cancel_button() -> None:
    """While it runs nothing else begins; it says how far it is, and stops when it is told to."""
    action, begun = BackgroundRun("Applying"), threading.Event()

    def work(job: RunningJob) -> str:
        job.report(done=2, total=5)
        begun.set()
        assert job.stop_requested.wait(10)
        return job.stopped()

    assert action.start(work)
    assert begun.wait(10)
    assert not action.start(lambda _: None)
    assert "2 of 5" in action.text_form()
    # As a click in the browser arrives: the handlers of the button are called.
    action.button.click()
    assert "stopping" in action.text_form()
    assert action.wait(10)
    assert "cancelled by the user" == action.result
    assert "none" == action.button.layout.display


def test_what_cannot_be_cancelled_has_no_button() -> None:
    """A button that would do nothing is not shown."""
    action, go_on = BackgroundRun("Moving", cancellable=False), threading.Event()
    action.start(lambda _: go_on.wait(10))
    assert "none" == action.button.layout.display
    go_on.set()
    assert action.wait(10)
