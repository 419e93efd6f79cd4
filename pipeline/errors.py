"""The exception that ends a job."""


class PipelineError(Exception):
    """A job cannot continue. The text is one line for users, who see it without a traceback."""
