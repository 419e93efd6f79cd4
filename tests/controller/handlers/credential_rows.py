"""The rights that requests about SCRAM credentials need; rows of `authorization_rows`."""

from klamm.controller.authorizer import AclOperation
from klamm.protocol.messages.security import alter_user_scram_credentials, describe_user_scram_credentials
from klamm.protocol.messages.tokens import (
    create_delegation_token,
    describe_delegation_token,
    expire_delegation_token,
    renew_delegation_token,
)
from tests.controller.handlers.authorization_row import CLUSTER_DENIED, Row, on_cluster

ALTER, DESCRIBE = AclOperation.ALTER, AclOperation.DESCRIBE
CREDENTIAL_ROWS = [
    Row(
        "AlterUserScramCredentials",
        alter_user_scram_credentials.API,
        lambda name: alter_user_scram_credentials.AlterUserScramCredentialsRequest(
            deletions=[alter_user_scram_credentials.ScramCredentialDeletion(name="u", mechanism=1)]
        ),
        [on_cluster(ALTER)],
        CLUSTER_DENIED,
    ),
    Row(
        "DescribeUserScramCredentials",
        describe_user_scram_credentials.API,
        lambda name: describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=None),
        [on_cluster(DESCRIBE), on_cluster(ALTER)],
        CLUSTER_DENIED,
    ),
]
TOKEN_APIS = frozenset(
    {
        create_delegation_token.API,
        renew_delegation_token.API,
        expire_delegation_token.API,
        describe_delegation_token.API,
    }
)
"""APIs that tell tokens of others to those who have a right; test_delegation_tokens.py tests these."""
