"""
Run a notebook headlessly and leave an account of it.

`run_notebook` checks the parameters, executes the notebook through papermill and leaves a folder
with the executed notebook, a report and `result.json`. The notebook's last cell calls `conclude`.
"""
