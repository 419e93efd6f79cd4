"""What stops a job: told in one line."""


class PipelineError(Exception):
    """A job cannot go on: the text is one line for people, without a traceback."""
