"""Jobs worth watching: ``make run``, or ``trisched run examples.demo:app`` in the project's folder.

Then, in a second terminal: ``trisched jobs list``, ``trisched runs list``,
``trisched submit thumbnail image=cat.png --wait``.
"""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime

import trio

import trisched

app = trisched.App()


@app.job(schedule="every 5s", description="An async function on an interval.")
async def heartbeat() -> str:
    """What a function returns is kept with its run."""
    return f"alive at {datetime.now(UTC):%H:%M:%S}"


app.shell(
    "disk-usage",
    "df -h / | tail -1",
    schedule="*/15 * * * * *",
    description="A shell command on a cron expression with seconds; its output is kept.",
)


@app.job(
    schedule="every 20s",
    retries=4,
    backoff={"kind": "exponential", "base": 1, "max": "10s"},
    description="Fails about half the time, and is tried again after 1, 2, 4 and 8 seconds.",
)
async def flaky_import(ctx: trisched.Context) -> str:
    """A run that uses up its attempts is dead: ``trisched runs retry RUN`` gives it new ones."""
    await trio.sleep(0.2)
    if random.random() < 0.5:
        raise ConnectionError("the supplier's server hung up")
    return f"imported at attempt {ctx.attempt}"


@app.job(
    mode="thread",
    schedule="every 30s",
    timeout="10s",
    description="A plain function that blocks, in a thread of its own.",
)
def monthly_report(ctx: trisched.Context) -> str:
    """Other jobs go on meanwhile."""
    pages = 5
    for page in range(1, pages + 1):
        time.sleep(0.3)
        ctx.progress(page, pages, f"page {page}")
    return f"{pages} pages"


@app.job(queue="images", description="Submitted by new_photos, or by you.")
async def thumbnail(image: str) -> str:
    """Parameters are the function's own arguments."""
    await trio.sleep(random.uniform(0.1, 1.0))
    return f"{image}: 200 x 200"


@app.job(
    schedule="every 10s",
    priority="high",
    description="Goes before runs of normal priority, and submits other runs.",
)
async def new_photos(ctx: trisched.Context) -> int:
    """A key makes submitting safe to repeat: when this run is tried again, no image is submitted twice."""
    images = [f"photo-{number}.jpg" for number in range(1, 4)]
    for image in images:
        await ctx.submit("thumbnail", {"image": image}, key=f"{ctx.run_id}:{image}")
    return len(images)
