"""The command line as a module, so that a benchmark measures this checkout."""

from ui.cli import main

if __name__ == "__main__":
    main()
