"""The report: a summary of the gold tables, of bounded size, and its HTML page, which needs no other files."""

from klamm.pipeline.report.page import render_html, write_page
from klamm.pipeline.report.summary import SUMMARY_VERSION, summarize

__all__ = ["SUMMARY_VERSION", "render_html", "summarize", "write_page"]
