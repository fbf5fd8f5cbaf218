"""groupd that prints, as one line of JSON, which modules and dataclasses it has loaded, and stops, as soon as it is
ready: run as a module, with `serve ...`."""

import json
import logging
import os
import signal
import sys

from coordinator.cli.main import main


class _ReportWhenReady(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith("Ready"):
            modules = {name: vars(module) for name, module in sys.modules.copy().items()}
            dataclasses = [
                f"{name}.{value.__name__}"
                for name, values in modules.items()
                for value in values.values()
                if isinstance(value, type)
                and value.__module__ == name
                and "__dataclass_fields__" in vars(value)
            ]
            print(json.dumps({"modules": list(modules), "dataclasses": dataclasses}))
            os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    logging.getLogger("KafkaServer").addHandler(_ReportWhenReady())
    main(sys.argv[1:])
