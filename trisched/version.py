"""The version of this trisched, said once."""

__version__ = "0.1.0"
