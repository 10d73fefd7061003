"""``python -m ui.cli`` is the command ``sylva``."""

from ui.cli import main

main()
