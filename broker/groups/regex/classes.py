"""Classes of characters, as sets of ASCII characters: a number with bit n for character n.

Other characters never occur in a topic name. They count only where case is ignored: two of them are equal to letters.
"""

import unicodedata
from collections.abc import Callable, Iterable
from typing import Final

ALL: Final = (1 << 128) - 1
_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz")
_EQUAL_TO_LETTERS: Final = {0x17F: "s", 0x212A: "k"}
"""LATIN SMALL LETTER LONG S and KELVIN SIGN."""


def of(characters: Iterable[str]) -> int:
    return sum(1 << ord(character) for character in set(characters))


def single(code: int) -> int:
    return 1 << code if code < 128 else 0


def between(low: int, high: int) -> int:
    """The characters from `low` to `high`, both included."""
    return sum(1 << code for code in range(low, min(high, 127) + 1))


def folded(low: int, high: int) -> int:
    """Those between `low` and `high`, and those that differ from them by case alone."""
    mask = ignoring_case(between(low, high))
    for code, letter in _EQUAL_TO_LETTERS.items():
        if low <= code <= high:
            mask |= ignoring_case(1 << ord(letter))
    return mask


def ignoring_case(mask: int) -> int:
    upper, lower = mask & UPPER, mask & LOWER
    return mask | upper << 32 | lower >> 32


LOWER: Final = of(_LETTERS)
UPPER: Final = LOWER >> 32
DIGIT: Final = of("0123456789")
WORD: Final = LOWER | UPPER | DIGIT | of("_")
_SPACE: Final = of("\t\n\f\r ")

PERL: Final = {"d": DIGIT, "s": _SPACE, "w": WORD}
"""By the letter after the backslash; the capital letter is the complement."""

POSIX: Final = {
    "alnum": LOWER | UPPER | DIGIT,
    "alpha": LOWER | UPPER,
    "ascii": ALL,
    "blank": of("\t "),
    "cntrl": between(0, 31) | 1 << 127,
    "digit": DIGIT,
    "graph": between(33, 126),
    "lower": LOWER,
    "print": between(32, 126),
    "punct": between(33, 126) & ~(LOWER | UPPER | DIGIT),
    "space": _SPACE | of("\v"),
    "upper": UPPER,
    "word": WORD,
    "xdigit": DIGIT | of("abcdefABCDEF"),
}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CATEGORIES: Final = _words(
    "C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs"
)
_CASE_OF_CATEGORIES: Final = {"Lu": LOWER, "Ll": of("KS")}
"""What RE2J adds to a category where case is ignored. To Ll it adds of the capital letters only those that a letter
outside ASCII is equal to, which must be an oversight."""
_SCRIPTS: Final = _words(
    """Arabic Armenian Avestan Balinese Bamum Batak Bengali Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal
    Carian Cham Cherokee Common Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari Egyptian_Hieroglyphs Ethiopic
    Georgian Glagolitic Gothic Greek Gujarati Gurmukhi Han Hangul Hanunoo Hebrew Hiragana Imperial_Aramaic Inherited
    Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kayah_Li Kharoshthi Khmer Lao Latin
    Lepcha Limbu Linear_B Lisu Lycian Lydian Malayalam Mandaic Meetei_Mayek Mongolian Myanmar New_Tai_Lue Nko Ogham
    Ol_Chiki Old_Italic Old_Persian Old_South_Arabian Old_Turkic Oriya Osmanya Phags_Pa Phoenician Rejang Runic
    Samaritan Saurashtra Shavian Sinhala Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Tamil
    Telugu Thaana Thai Tibetan Tifinagh Ugaritic Unknown Vai Yi"""
)


def unicode_class(name: str, *, ignore_case: bool) -> int | None:
    """The ASCII characters of a general category, a script or `Any`; None: RE2J has no such class."""
    if name == "Any":
        return ALL
    if name in _CATEGORIES:
        mask = _where(lambda character: unicodedata.category(character).startswith(name))
        return mask | _CASE_OF_CATEGORIES.get(name, 0) if ignore_case else mask
    if name not in _SCRIPTS:
        return None
    letters = LOWER | UPPER
    return {"Latin": letters, "Common": ALL & ~letters}.get(name, 0)


def _where(holds: Callable[[str], bool]) -> int:
    return of(chr(code) for code in range(128) if holds(chr(code)))
