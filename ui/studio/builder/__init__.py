"""The Build page.

- ``page``           all of it: the list, or the toolbar, canvas, form and panels of a pipeline
- ``pipeline_list``, ``thumbnail``  the pipelines of the workspace, for a tab that has none open
- ``browser_tab``    which pipeline is open in this browser tab
- ``open_pipeline``  that pipeline: its contents, its file and its last run
- ``node_states``    what the canvas shows of a run
- ``toolbar``, ``node_panel``, ``panels``  above, beside and below the canvas
- ``outputs``        the previews in a panel, and the results on the canvas
"""
