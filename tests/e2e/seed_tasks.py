"""The tasks that the demo's jobs name."""

from __future__ import annotations

import trio

import trisched

app = trisched.App()


@app.task("reports.generate_daily")
async def generate_daily(recipients: list[str], ctx: trisched.Context) -> str:
    ctx.log("Report generated")
    await trio.sleep(1.0)
    return f"sent to {len(recipients)}"


@app.task("email.send_report")
async def send_report() -> None: ...
