"""A node inside a Trio program: ``python examples/embedded.py``."""

from __future__ import annotations

import trio

import trisched

app = trisched.App()


@app.job(retries=2)
async def greet(name: str) -> str:
    """One task, called with parameters."""
    return f"hello, {name}"


async def main() -> None:
    """Submits runs and waits for their results, while the node executes them in this very process."""
    async with app.running():
        run = await greet.submit(name="world", key="first-greeting")
        print(await run.wait(timeout="10s"))

        runs = await greet.submit_many([{"name": name} for name in ("Ada", "Grace", "Barbara")])
        for run in runs:
            print(await run.wait(timeout="10s"))


if __name__ == "__main__":
    trio.run(main)
