#!/usr/bin/env python3
"""One test for each way to lose a grant or a caller that was found from outside, with an independent provider.

    Tests/reliability/directed.py [NAME …] [--products DIR] [--jobs 4]

The programs are those of --products, of $PRODUCTS, or of .build-make/debug ($BUILD takes another build). Each test prints
one line: PASS, FAIL or SKIP, its name, and what was seen. Exit status: 0 none failed, 1 some did.
"""

import argparse
import asyncio
import os
import pathlib
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
sys.dont_write_bytecode = True

from cases import callers, copies, disks, headers, kept, providers, refreshes, rows, state
from grantd_testing import Wrong, products
from machine import Skip, loopback_up, namespace, raise_files
from provider.judge import self_test
from stage import Stage

CASE_SECONDS = 800
PARTS = refreshes, providers, state, rows, callers, disks, copies, headers, kept
CASES = {name: case for part in PARTS for name, case in part.CASES.items()}


async def run(name, options, tally):
    programs = products(options.products)
    began, stage = time.monotonic(), Stage(programs, options.inside is not None, options.inside == "network")
    try:
        async with asyncio.timeout(CASE_SECONDS), stage:
            verdict, seen = "PASS", await CASES[name](stage)
    except Skip as reason:
        verdict, seen = "SKIP", reason
    except Wrong as wrong:
        verdict, seen = "FAIL", wrong
    except TimeoutError:
        verdict, seen = "FAIL", f"an answer did not come: {''.join(traceback.format_exc().splitlines()[-8:-1])[:400]}"
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        verdict, seen = "FAIL", f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
    tally[verdict] = tally.get(verdict, 0) + 1
    print(f"{verdict} {name}: {seen} [{time.monotonic() - began:.0f} s]", flush=True)


async def run_all(names, options):
    tally, room = {}, asyncio.Semaphore(options.jobs)

    async def one(name):
        async with room:
            await run(name, options, tally)

    # Those that wait the longest begin first.
    await asyncio.gather(*(one(name) for name in names if name not in providers.ALONE))
    for name in names:
        if name in providers.ALONE:
            await run(name, options, tally)
    return tally


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--products", help="the folder with grantd and grantctl")
    parser.add_argument("--jobs", type=int, default=4, help="tests at once")
    parser.add_argument("--inside", choices=("mounts", "network"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := set(options.names) - set(CASES):
        parser.error(f"no test {', '.join(sorted(unknown))}; there are: {', '.join(CASES)}")
    if not options.inside:
        for inside, more in (("network", ["-n"]), ("mounts", [])):
            if command := namespace(*more):
                os.execvp(command[0], [*command, sys.executable, __file__, *sys.argv[1:], "--inside", inside])
    if options.inside == "network":
        loopback_up()
    self_test()
    raise_files()
    began = time.monotonic()
    tally = asyncio.run(run_all(options.names or list(CASES), options))
    counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(tally.items()))
    print(f"# directed: {counts}; {time.monotonic() - began:.0f} s")
    sys.exit(1 if tally.get("FAIL") else 0)


main()
