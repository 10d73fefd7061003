"""Draw the forms of the builder, generated from the parameters of node types.

- ``node_form``      the form of one node
- ``deep_forest``, ``load_data``  the parts of two forms that are their own
- ``sweep``          the part of a form for values to try
- ``fields``         what to draw: the fields of a pydantic model, and values as widgets show them
- ``form``           one form while it is drawn: widget keys, problems, and how edits are made
- ``field_widgets``  one function per kind of field; ``cards`` for lists of settings with a kind
- ``field_help``     the help of a field, beside it
- ``fit_count``      says how much the settings of a deep forest train
"""
