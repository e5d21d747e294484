"""Proves protocol T2 + T3 with SPIN: `python -m lab.proof [NAME…]`

The protocol must hold in all states, and SPIN must find a counterexample for each rule that is
removed. The exit status is 1 if a case has another result.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor

from .cases import CASES
from .spin import Result, check

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Run cases and print their results."""
    if unknown := set(arguments) - {case.name for case in CASES}:
        print(f"no such case: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    chosen = [case for case in CASES if case.name in arguments or not (arguments or case.big)]
    print(f"{'':4}{'case':20}{'states':>12}{'seconds':>9}  what")
    # Two at a time, because "all" takes as long as the other cases combined.
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        results = list(map(_report, pool.map(check, chosen)))
    wrong = [result for result in results if result.problem]
    print(f"{len(results)} cases, {len(wrong)} wrong" if wrong else f"{len(results)} cases, all as they must be")
    return 1 if wrong else 0


def _report(result: Result) -> Result:
    case = result.case
    expected = f"{case.found}: " if case.fails and not result.problem else ""
    verdict = "FAIL" if result.problem else "ok"
    print(f"{verdict:4}{case.name:20}{result.states:>12,}{result.seconds:>9.1f}  {expected}{case.what}", flush=True)
    if result.problem:
        print(f"     {result.problem}")
    if result.problem or case.fails:
        for line in result.trail:
            print(f"       {line}", flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
