"""`python -m tests.simulation --seed N --steps M`: play one run and print a line for each event."""

import argparse
import sys

from tests.simulation.brokers.run import BrokerSimulation
from tests.simulation.consumers.run import ConsumerSimulation
from tests.simulation.run import Failed, Simulation
from tests.simulation.transactions.run import Simulation as TransactionSimulation


def main() -> int:
    """Run one seed or several. Return the exit code: 1 if a run violated an invariant."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="decides everything that happens")
    parser.add_argument("--steps", type=int, default=1_500, help="how much happens before it becomes quiet")
    parser.add_argument(
        "--seeds", type=int, default=1, help="run so many seeds from --seed on, without lines"
    )
    parser.add_argument(
        "--transactions", action="store_true", help="producers with transactions instead of groups"
    )
    parser.add_argument(
        "--consumers", action="store_true", help="consumer groups, with members of both protocols"
    )
    parser.add_argument("--brokers", action="store_true", help="three brokers, between which groups move")
    arguments = parser.parse_args()
    simulation: type[Simulation | TransactionSimulation | ConsumerSimulation] = Simulation
    if arguments.transactions:
        simulation = TransactionSimulation
    elif arguments.consumers:
        simulation = ConsumerSimulation
    elif arguments.brokers:
        simulation = BrokerSimulation
    for seed in range(arguments.seed, arguments.seed + arguments.seeds):
        try:
            simulation(seed, show=print if arguments.seeds == 1 else None).run(arguments.steps)
        except Failed as failed:
            print(failed if arguments.seeds > 1 else str(failed).splitlines()[-1])
            return 1
    print(f"seeds {arguments.seed} to {arguments.seed + arguments.seeds - 1}: every rule held")
    return 0


if __name__ == "__main__":
    sys.exit(main())
