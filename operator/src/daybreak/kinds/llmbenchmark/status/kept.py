"""Status of the report that is kept in a ConfigMap."""

from daybreak.api.common import names
from daybreak.api.llmbenchmark.status import ReportStatus
from daybreak.kinds.llmbenchmark.objects.report_map import FILES, LIMIT, fitting
from daybreak.kinds.llmbenchmark.observe.observed import Observed

_MESSAGE_LIMIT = 1024


def kept(observed: Observed) -> ReportStatus | None:
    """Return the location of the report, or None until the job has sent it."""
    report = observed.progress.files if observed.progress is not None else None
    if report is None or observed.subject is None:
        return None
    if observed.foreign:
        return ReportStatus(message=f"not kept: {', '.join(observed.foreign)} is not managed by Daybreak")
    if observed.refusal:
        message = f"not kept: {observed.refusal}; the chart's value benchmarks.reports grants the permission"
        return ReportStatus(message=message[:_MESSAGE_LIMIT])
    files = fitting(report)
    missing = [name for name in FILES if name not in files]
    left = f"not kept over the size limit ({LIMIT // 1024} KiB): {', '.join(missing)}" if missing else None
    name = names.benchmark_report(observed.subject.name) if files else None
    return ReportStatus(config_map=name, files=list(files), message=left)
