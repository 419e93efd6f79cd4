"""The report: what gold says as one summary of stated size, and that as one page that needs nothing else."""

from klamm.pipeline.report.page import render_html, write_page
from klamm.pipeline.report.summary import SUMMARY_VERSION, summarize

__all__ = ["SUMMARY_VERSION", "render_html", "summarize", "write_page"]
