"""Draw the canvas on which a pipeline is built: a Streamlit component.

- ``canvas``        draws a document and returns it with the user's edits
- ``CanvasResult``  the document after the user's edits, the selection, and what was clicked
- ``Edited``        the document with one edit, before the canvas gets its confirmation
- ``NodeView``      a node's run state, as the canvas shows it
- ``Reveal``        a request to select a node and bring it into view

The canvas decides which nodes exist, their types, edges, notes and positions. Python decides
parameters, labels, settings, problems and states. Python's document replaces the one on the canvas
only when ``epoch`` changes.
"""

from ui.studio.canvas.component import canvas
from ui.studio.canvas.protocol import CanvasResult, Edited, NodeView, Reveal, RunRequest, State

__all__ = ["CanvasResult", "Edited", "NodeView", "Reveal", "RunRequest", "State", "canvas"]
