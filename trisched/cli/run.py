"""``trisched run``: starts a node and says where it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

import trisched
from trisched.app import App
from trisched.cli.connection import config_file
from trisched.cli.log_lines import LEVELS, log_to_stderr
from trisched.cli.target import load_app
from trisched.clock import SystemClock
from trisched.config import Settings, load, locate, read_jobs
from trisched.domain.duration import format_duration
from trisched.errors import Invalid, Misconfigured
from trisched.node import Started

F = TypeVar("F", bound=Callable[..., Any])


def _setting(name: str, text: str, **attributes: Any) -> Callable[[F], F]:
    """An option whose variable is read together with the file, so that errors can name the one at fault."""
    help_text = f"{text} [env var: TRISCHED_{name.upper()}]"
    return click.option(_flag(name), default=None, allow_from_autoenv=False, help=help_text, **attributes)


def _switch(name: str, text: str) -> Callable[[F], F]:
    help_text = f"{text} [env var: TRISCHED_{name.upper()}]"
    return click.option(f"--{name}/--no-{name}", default=None, allow_from_autoenv=False, help=help_text)


def _later(name: str, **attributes: Any) -> Callable[[F], F]:
    """An option of the contract that this version refuses with a reason instead of not knowing it."""
    return click.option(_flag(name), default=None, hidden=True, allow_from_autoenv=False, **attributes)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


@click.command()
@click.argument("target", required=False, metavar="[MODULE:APP | FILE.py:APP | FILE.toml]")
@click.option(
    "--config",
    envvar="TRISCHED_CONFIG",
    show_envvar=True,
    metavar="FILE",
    help="Settings and jobs. [default: ./trisched.toml if there is one]",
)
@_setting("database", "Path, sqlite:///path or postgresql://… [default: trisched.db in the data directory]")
@_setting("data_dir", "Directory for the node's files. [default: .trisched]")
@_setting("host", "Loopback address to bind. [default: 127.0.0.1]")
@_setting("port", "Port to bind; 0 takes a free one. [default: 8000]")
@_setting("node_id", "Name of this node. [default: a new one at each start]")
@_setting("tags", "Comma-separated tags, for jobs that require them.", metavar="A,B")
@_setting("queues", "Comma-separated queues to work on. [default: all]", metavar="A,B")
@_setting("concurrency", "Attempts at the same time. [default: 100]", metavar="N")
@_setting("drain_timeout", "Time for running attempts to end when stopping. [default: 30s]")
@_setting("http_allow", "Addresses, networks and hosts that HTTP jobs may reach beside public ones.", metavar="A,B")
@_setting("secrets_dir", "Directory of secrets, a file each.", metavar="DIR")
@_switch("scheduler", "Take part in scheduling.")
@_switch("worker", "Execute runs.")
@_switch("web", "Serve the web interface.")
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    default="info",
    show_default=True,
    envvar="TRISCHED_LOG_LEVEL",
    show_envvar=True,
    help="Least important log lines to print.",
)
@_later("redis", multiple=True)
@_later("auth")
@_later("token_file")
@_later("tls_cert")
@_later("tls_key")
@_later("behind_proxy", is_flag=True)
@_later("read_only", is_flag=True)
def run(target: str | None, config: str | None, log_level: str, **flags: object) -> None:
    """Start a node: scheduler, worker and web interface.

    It runs the jobs of an App in Python and of a TOML file; without either it takes jobs over its web
    interface. The first Ctrl-C or SIGTERM lets running attempts end, a second one stops at once.
    """
    if target is not None and target.endswith(".toml"):
        if config is not None and config != target:
            raise click.UsageError(f"{target} and {config} are two configuration files; name one of them")
        target, config = None, target
    file = config_file(config)
    app = App() if target is None else load_app(target)
    # Options that may be repeated are empty when they are absent.
    given = {name: list(value) if isinstance(value, tuple) else value for name, value in flags.items()}
    settings = load({name: value for name, value in given.items() if value != []}, os.environ, file, code=app.flags)
    log_to_stderr(log_level)
    _run(app, settings, file)


def _run(app: App, settings: Settings, file: Path | None) -> None:
    app.configure(settings)
    if file is not None:
        app.declare_file(read_jobs(file, now=SystemClock().now_us()))
    try:
        app.run(on_started=lambda started: _announce(started, settings))
    except Invalid as error:
        # Here it is not the caller's input that is wrong, but the jobs that the node was started with.
        raise (Misconfigured(str(error)) if file is None else locate(file, error)) from error


def _announce(started: Started, settings: Settings) -> None:
    lines = [f"trisched {trisched.__version__}", f"Node   {started.node_id}", f"Store  {started.store}"]
    if started.url is not None:
        lines.append(f"Web    {started.url}")
    if settings.worker:
        lines += [f"Worker {started.node_id} registered", "Listening for jobs..."]
    patience = format_duration(settings.drain_timeout)
    lines.append(f"Ctrl-C to stop: running attempts get {patience} to end; a second Ctrl-C stops at once")
    click.echo("\n".join(lines))
