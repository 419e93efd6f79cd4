"""Who may do what: access control entries and the rules of Kafka's StandardAuthorizer.

Knows no requests, no records and no image. `acls` says what entries are made of, `acl_index` answers questions about
many of them fast, `standard_authorizer` is what handlers ask, `configuration` reads how it is
set up, `refusals` is what the refused are told.
"""

from klamm.controller.authorizer.acl_index import AclIndex
from klamm.controller.authorizer.acls import (
    ANONYMOUS,
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)
from klamm.controller.authorizer.configuration import (
    AUTHORIZER_CONFIGS,
    AUTHORIZERS_OWN_CONFIGS,
    STANDARD_AUTHORIZER,
    authorizer_config_fault,
    configured_authorizer,
)
from klamm.controller.authorizer.refusals import REFUSALS, refused_as_a_whole
from klamm.controller.authorizer.standard_authorizer import Access, StandardAuthorizer, all_operations

__all__ = [
    "ANONYMOUS",
    "AUTHORIZERS_OWN_CONFIGS",
    "AUTHORIZER_CONFIGS",
    "CLUSTER_NAME",
    "REFUSALS",
    "STANDARD_AUTHORIZER",
    "WILDCARD",
    "Access",
    "Acl",
    "AclIndex",
    "AclOperation",
    "AclPermissionType",
    "AclResourceType",
    "PatternType",
    "StandardAuthorizer",
    "all_operations",
    "authorizer_config_fault",
    "configured_authorizer",
    "refused_as_a_whole",
]
