"""`ssl.principal.mapping.rules`, with the examples of Kafka's documentation and of the recorded cluster."""

import pytest

from klamm.server.tls.principals import NoRuleMatches, PrincipalRules

ALICE = "CN=Alice,OU=Engineering,O=Klamm,L=Vienna,C=AT"
RECORDED = (
    r"RULE:^CN=([^,]*),OU=Engineering,.*$/$1/U, RULE:^CN=([a-zA-Z.]*),OU=Ops,.*$/$1@ops/L, "
    r"RULE:^.*CN=([^,]*),OU=Services,O=(.*),C=DE$/$1 of $2/, RULE:^O=Nobody.*$/x/, DEFAULT"
)


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", ALICE, ALICE),
        ("", ALICE, ALICE),
        ("  DEFAULT  ", ALICE, ALICE),
        (RECORDED, ALICE, "ALICE"),
        (RECORDED, "CN=bob.Builder,OU=Ops,O=Klamm", "bob.builder@ops"),
        (RECORDED, "CN=svc-1,OU=Services,O=Klamm\\, Inc.,C=DE", "svc-1 of Klamm\\, Inc."),
        (RECORDED, "OU=Engineering,O=Klamm", "OU=Engineering,O=Klamm"),
        ("RULE:^CN=(.*?),.*$/$1/", ALICE, "Alice"),
        ("RULE:^CN=(.*?),.*$/$1/,RULE:.*/other/", ALICE, "Alice"),
        ("RULE:^cn=(.*)$/$1/,DEFAULT", ALICE, ALICE),
        (r"RULE:^CN=(.*?),.*$/\$1 $7/", ALICE, "$1 $7"),
        (r"RULE:^CN=a\/b$/x\/y/", "CN=a/b", "x/y"),
        ("RULE:^CN=(a)|(b)$/<$1$2>/", "CN=a", "<a>"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_counts(rules: str, subject: str, name: str) -> None:
    assert PrincipalRules(rules).name_of(subject) == name


@pytest.mark.parametrize("subject", ["CN=alice,O=x", "O=x,CN=alice", ""])
def test_a_name_without_a_rule_is_no_principal(subject: str) -> None:
    with pytest.raises(NoRuleMatches):
        PrincipalRules("RULE:^CN=alice$/$0/").name_of(subject)


@pytest.mark.parametrize(
    "rules", ["default", "RULE:^CN=(.*)$/$1", "RULE:(/x/", "RULE:^a$/b/X", "DEFAULT, nonsense", "RULE"]
)
def test_rules_that_cannot_be_read_are_refused(rules: str) -> None:
    with pytest.raises(ValueError, match="rule"):
        PrincipalRules(rules)
