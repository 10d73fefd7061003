"""Pipeline documents, plan, scheduler, store, executors and command line.

The engine knows no node and no learner: node types are found through the entry point group ``sylva.nodes``.

A pipeline on its way through the package:

- ``document``   a pipeline as a value, ``pipeline_file`` as JSON; ``edits`` change it, ``validate`` says what is wrong
- ``contract``   what a node type is; ``catalogue`` finds the installed ones; ``values`` flow along the edges
- ``plan``       which nodes a run wants, in which order; ``keys`` name the result each would have
- ``scheduler``  starts each node when its inputs are ready; ``executors`` run it in a process of its own
- ``store``      keeps every result under its content's hash; ``events`` is the log all shown states derive from
- ``supervisor`` the process that owns a run; ``launch`` starts one; ``cli`` is the command ``sylva``
"""
