"""Draw the forms of the builder, generated from the parameters of node types.

- ``node_form``     draws the form of one node
- ``ParamsEdit``    what a form reports for each edit: a function from parameters to parameters
- ``fields``        from a pydantic model to one ``FieldSpec`` per field: what to draw
- ``values``        from a value in a document to what a widget shows, and back
- ``form_state``    one form while it is drawn: widget keys, problems, and how edits are made
- ``widgets``       one function per kind of field; ``cards`` for lists of settings with a kind
- ``deep_forest``   the form of a deep forest; ``fit_count`` says how much its settings train
- ``sweep``         the part of a form for values to try
"""

from ui.studio.forms.form import node_form
from ui.studio.forms.form_state import ParamsEdit

__all__ = ["ParamsEdit", "node_form"]
