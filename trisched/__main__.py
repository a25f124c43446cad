"""``python -m trisched``: the same as the ``trisched`` command."""

from trisched.cli.main import main

if __name__ == "__main__":
    main()
