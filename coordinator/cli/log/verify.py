"""`groupd log verify`: everything that is wrong with a log, and what comes of it."""

from itertools import chain

import click

from coordinator.cli.log.entry import what_is_wrong
from coordinator.cli.log.finding_report import FindingReport, JsonReport, TextReport, VerifiedLog
from coordinator.cli.log.paths import FOUND, SOUND, holds_offsets, in_words, logs_at, pause
from coordinator.cli.log.progress import progress_of
from coordinator.cli.output import Output, color_option
from storage.files import OsFiles
from storage.inspection.journal_check import JournalCheck
from storage.inspection.verification import Verification

EPILOG = """Looks at every batch (length, format, checksum, counts, offsets), at what it unpacks to, at keys and
values of __consumer_offsets, at indexes, checkpoints and the journal. Changes nothing, and may run beside the
daemon.
Exit codes: 0 sound, 1 something is wrong, 2 PATH is no log, 130 interrupted."""


@click.command(epilog=EPILOG)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--json", "is_json", is_flag=True, help="One JSON object a finding, and one that sums up.")
@click.option(
    "--offsets-decoder", is_flag=True, help="Decode as __consumer_offsets, whatever the directory is called."
)
@color_option
@in_words
def command(paths: tuple[str, ...], is_json: bool, offsets_decoder: bool, output: Output) -> int:
    """Check logs: say where something is wrong, what it means, and what repair would do about it."""
    logs = logs_at(OsFiles(), paths)
    report = _report(output, is_json=is_json)
    verified: list[VerifiedLog] = []
    found = 0
    with progress_of(output, logs) as progress:
        journals = JournalCheck(progress.files, logs)
        for log in logs:
            examine = what_is_wrong if offsets_decoder or holds_offsets(log) else None
            verification = Verification(progress.files, log, examine=examine, pause=pause)
            found_before = found
            damage = journals.damage(log)
            if damage is not None:
                found += 1
                report.say(log._replace(name=None), damage)
            for finding in chain(verification.findings(), journals.findings(log)):
                found += 1
                progress.note(f"{found:,} finding{'' if found == 1 else 's'}")
                progress.hide()
                report.say(log, finding)
            verified.append(VerifiedLog(log, verification.totals, found - found_before))
    report.sum_up(verified)
    return FOUND if found else SOUND


def _report(output: Output, *, is_json: bool) -> FindingReport:
    if is_json:
        return JsonReport()
    if not output.is_for_people:
        return TextReport()
    from coordinator.cli.log.finding_blocks import BlockReport

    return BlockReport(output)
