"""The configuration of a node: its settings, and the jobs of its file."""

from trisched.config.job_file import JobTable, locate, read_jobs
from trisched.config.settings import Settings, load

__all__ = ["JobTable", "Settings", "load", "locate", "read_jobs"]
