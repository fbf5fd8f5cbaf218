"""The report as an HTML page."""

import os
import tempfile
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pipeline.errors import BadInput
from pipeline.lock import reading
from pipeline.report import words
from pipeline.report.charts.course import course
from pipeline.report.charts.overview import overview
from pipeline.report.charts.pauses import pauses
from pipeline.report.charts.timeline import timeline
from pipeline.report.gather import (
    MAX_ANOMALIES,
    MAX_REBALANCES,
    Gathered,
    GroupDetails,
    gather,
)
from pipeline.report.ledger import in_short, read_ledger
from pipeline.report.rebalances import causes_in_short, worst
from pipeline.report.report_tables import EVERYTHING, Selection
from pipeline.report.story import KINDS, findings_of, healthy, story
from pipeline.report.verdict import Finding
from pipeline.warehouse import Warehouse
from storage.storage_errors import format_error_reason

TEMPLATE: Final = "page.html.j2"
MAX_FINDINGS: Final = 30


def write_report(warehouse: Warehouse, out: str, selection: Selection = EVERYTHING) -> Gathered:
    """Write the report on a built warehouse to the file `out` atomically. Return its content.

    Raises:
        BadInput: there is nothing to report, or `out` cannot be written.
    """
    check_out(out)
    with reading(warehouse):
        gathered = gather(warehouse, selection)
    text = render(gathered)
    directory = os.path.dirname(os.path.abspath(out))
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=directory, suffix=".tmp", delete=False
        ) as file:
            file.write(text)
        os.chmod(file.name, 0o644)
        os.replace(file.name, out)
    except OSError as error:
        raise BadInput(f"{out}: {format_error_reason(error, out)}") from error
    return gathered


def check_out(out: str) -> None:
    """Check that `out` can be written.

    Raises:
        BadInput: it cannot.
    """
    directory = os.path.dirname(os.path.abspath(out))
    if not os.path.isdir(directory):
        raise BadInput(f"{out}: the directory {directory} does not exist")
    if os.path.isdir(out):
        raise BadInput(f"{out}: is a directory: name an HTML file")
    if not os.access(directory, os.W_OK):
        raise BadInput(f"{out}: {directory} is not writable")


def render(gathered: Gathered) -> str:
    """Return the HTML. It escapes all text from the log and has no external references."""
    environment = Environment(
        loader=PackageLoader(__package__, ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        name: getattr(words, name)
        for name in ("number", "duration", "moment", "shown", "cut", "share", "count", "forward")
    }
    findings = findings_of(gathered)
    of_group: dict[str, list[Finding]] = {}
    for finding in findings:
        of_group.setdefault(finding.group, []).append(finding)
    selection, shown = gathered.selection, [details.summary["group"] for details in gathered.groups]
    ledger = {} if selection.ledger is None else read_ledger(selection.ledger, shown)
    groups = [
        _group(
            place,
            gathered,
            details,
            of_group.get(details.summary["group"], []),
            ledger.get(details.summary["group"], {}),
        )
        for place, details in enumerate(_worst_first(gathered.groups, findings))
    ]
    return environment.get_template(TEMPLATE).render(
        gathered=gathered,
        totals=gathered.totals,
        info=gathered.info,
        findings=findings[:MAX_FINDINGS],
        n_more=len(findings) - MAX_FINDINGS,
        healthy=healthy(gathered),
        places={group["summary"]["group"]: group["place"] for group in groups},
        lines=story(gathered),
        overview=Markup(overview(gathered)) if gathered.totals["commits"] else "",
        groups=groups,
        rest=_rest(gathered),
        kinds=KINDS,
        max_anomalies=MAX_ANOMALIES,
        max_rebalances=MAX_REBALANCES,
        length=words.length(gathered.start, gathered.end),
    )


def _worst_first(groups: list[GroupDetails], findings: list[Finding]) -> list[GroupDetails]:
    """Order the groups by their findings, the worst first; groups without findings keep their order."""
    ranks: dict[str, int] = {}
    for rank, finding in enumerate(findings):
        ranks.setdefault(finding.group, rank)
    return sorted(groups, key=lambda details: ranks.get(details.summary["group"], len(findings)))


def _group(
    place: int, gathered: Gathered, details: GroupDetails, findings: list[Finding], ledger: dict[int, str]
) -> dict[str, Any]:
    """Return the template's values for one group. The plots escape their own text."""
    return {
        "place": place,
        "details": details,
        "summary": details.summary,
        "findings": findings,
        "worst": worst(details.rebalances, details.causes, MAX_REBALANCES, ledger),
        "ledger": in_short(ledger),
        "causes": causes_in_short(details.causes),
        "course": Markup(course(f"course-{place}", gathered, details)) if details.progress else "",
        "timeline": Markup(timeline(f"timeline-{place}", gathered, details)) if details.ownership else "",
        "pauses": Markup(pauses(f"pauses-{place}", gathered, details)),
    }


def _rest(gathered: Gathered) -> dict[str, int]:
    """Return the sums over the groups without details."""
    names = ("commits", "advance", "lag", "n_rebalances", "n_anomalies")
    rest = {
        name: gathered.totals[name] - sum(details.summary[name] or 0 for details in gathered.groups)
        for name in names
    }
    return rest | {"n_groups": gathered.totals["n_groups"] - len(gathered.groups)}
