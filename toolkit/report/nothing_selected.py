"""The error of a cell that needs a selection, with the way to the list."""

from __future__ import annotations

import time

from toolkit.errors import UsageError
from toolkit.report.display import OutputRole, display_output, is_headless, running_cell

# Run All leaves the page at the last cell, far below the list. A page that is loaded again later
# stays where it is.
SHOW_LIST = """<span id="{name}"></span><script>(async () => {{
  for (let turn = 0; turn < 50 && Math.abs(Date.now() - {now}) < 60000; turn++) {{
    const here = document.getElementById("{name}");
    const above = [...(here?.closest(".jp-Notebook")?.querySelectorAll(".ow-card") ?? [])]
      .filter((card) => card.querySelector(".ow-list") && card.compareDocumentPosition(here) & 4);
    if (above.length) {{
      above.pop().scrollIntoView({{ block: "center" }});
      return;
    }}
    await new Promise((go) => setTimeout(go, 100));
  }}
}})()</script>"""


def nothing_selected(problem: str, *, hint: str) -> UsageError:
    """Return the error to raise; in JupyterLab the list above comes into sight."""
    cell, run = running_cell()
    if cell and not is_headless():
        html = SHOW_LIST.format(name=f"ob-{run}", now=int(time.time() * 1000))
        display_output({"text/html": html, "text/plain": ""}, role=OutputRole.LIVE_ONLY)
    return UsageError(problem, hint=hint)
