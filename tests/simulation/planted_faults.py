"""The search for a run in which the checks notice a planted fault."""

from collections.abc import Callable

from tests.simulation.run import Failed


def find_violation(run: Callable[[int], None], seeds: int, first_seed: int = 0) -> str:
    """What the checks say of the first run that breaks a rule; "nothing" when no run breaks one.

    In: `run` plays one seed and raises Failed when a rule is broken. `first_seed` is played before the seeds
    below `seeds`: one that is known to notice the fault early. Where a change of the simulator lets another seed
    notice it, the search takes longer.
    """
    for seed in (first_seed, *range(seeds)):
        try:
            run(seed)
        except Failed as failed:
            return str(failed).splitlines()[-1]
    return "nothing"
