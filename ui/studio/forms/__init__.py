"""The forms of the builder, generated from the parameters of node types.

- ``node_form``     draws the form of one node
- ``ParamsEdit``    what a form gives for each edit: from parameters to parameters
- ``fields``        from a pydantic model to ``FieldSpec``s: what to draw for each field
- ``values``        from what a document holds to what a widget shows, and back
- ``state``         one form being drawn: keys, problems, and the way of an edit to the document
- ``widgets``       one function a kind of field; ``cards`` for lists of settings that have a kind
- ``deep_forest``   the form of a deep forest; ``amounts`` says what its settings amount to
"""

from ui.studio.forms.form import node_form
from ui.studio.forms.form_state import ParamsEdit

__all__ = ["ParamsEdit", "node_form"]
