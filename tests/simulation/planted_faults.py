"""The search for a run in which the checks notice a planted fault."""

from collections.abc import Callable

from tests.simulation.run import Failed


def find_violation(run: Callable[[int], None], seeds: int, first_seed: int = 0) -> str:
    """Return the violation of the first failing run, or "nothing" if all runs pass.

    Args:
        run: Plays one seed and raises Failed on a violation.
        seeds: The number of seeds to play.
        first_seed: Played before the others: a seed known to expose the fault early. If a change of the simulator
            makes another seed expose it, the search only takes longer.
    """
    for seed in (first_seed, *range(seeds)):
        try:
            run(seed)
        except Failed as failed:
            return str(failed).splitlines()[-1]
    return "nothing"
