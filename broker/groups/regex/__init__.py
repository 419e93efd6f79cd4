"""Regular expressions over topic names, in the dialect of RE2J, which Apache Kafka's group coordinator uses.

Why not a library: Python's `re` has another dialect and takes exponential time for some expressions; bindings to RE2
would be a dependency with native code for one field of one API. Topic names have 65 characters, all of ASCII, at most
249 in a name, and only a match of the whole name is asked for: what is left of RE2 is small. Matching takes a time
linear in the name and in the expression (`program`), whose size is limited.

Source: the syntax page of RE2, and RE2J 1.8's answers (tests/golden/regexes).
"""

from klamm.broker.groups.regex.parser import InvalidRegex
from klamm.broker.groups.regex.program import LARGEST_PROGRAM, Program, compile_regex

__all__ = ["LARGEST_PROGRAM", "InvalidRegex", "Program", "compile_regex"]
