"""Pictures and pages of a benchmark run, and two runs compared."""

from gsvc.eval.report.compare import compare_runs
from gsvc.eval.report.plots import write_plots
from gsvc.eval.report.report_page import write_report
from gsvc.eval.report.sheets import write_sheets

__all__ = ["compare_runs", "write_plots", "write_report", "write_sheets"]
