"""JAAS configurations as Kafka reads them."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.server.sasl.jaas import JaasError, decode_jaas


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a.B required;", {}),
        ("a.B  Required user_alice=\"secret\"\n user_bob='x' ;", {"user_alice": "secret", "user_bob": "x"}),
        ("a.B sufficient /* note */ key=word-1 // end\n;", {"key": "word-1"}),
        (r'a.B optional key="a\"b\\c\n\101";', {"key": 'a"b\\c\nA'}),
        ('a.B required key = ";=";', {"key": ";="}),
        ('a.B required key="zoë pässword";', {"key": "zoë pässword"}),
        ('a.B required "quoted name"="x";', {"quoted name": "x"}),
    ],
)
def test_a_login_module_has_options(text: str, options: dict[str, str]) -> None:
    module = decode_jaas(text)
    assert (module.class_name, dict(module.options)) == ("a.B", options)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "one login module is expected, not 0"),
        ("a.B required; c.D required;", "one login module is expected, not 2"),
        ("a.B", "the control flag is missing at the end"),
        ("a.B hunter2;", "the control flag after the login module must be required"),
        ("a.B required", "';' is missing at the end"),
        ('a.B required hunter2 "x";', "option 1 has no value"),
        ("a.B required key=", "the value of an option is missing at the end"),
        ('a.B required key="hunter2', "character 18 is not expected there"),
        ("a.B required key=hunter2!;", "character 25 is not expected there"),
    ],
)
def test_errors_have_a_place_and_no_secret(text: str, reason: str) -> None:
    with pytest.raises(JaasError) as raised:
        decode_jaas(text)
    assert str(raised.value).startswith(reason)
    assert "hunter2" not in str(raised.value)


def test_options_are_not_printed() -> None:
    assert "hunter2" not in repr(decode_jaas('a.B required password="hunter2";'))


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(JaasError):
        decode_jaas(text)


@given(st.dictionaries(st.from_regex(r"\A[a-z_]{1,8}\Z"), st.text(st.characters(codec="utf-8"), max_size=12)))
def test_quoted_values_are_read_unchanged(options: dict[str, str]) -> None:
    def quoted(value: str) -> str:
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'

    words = " ".join(f"{name}={quoted(value)}" for name, value in options.items())
    assert decode_jaas(f"a.B required {words};").options == options
