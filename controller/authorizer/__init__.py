"""Authorization: access control entries and the rules of Kafka's StandardAuthorizer.

This package does not import requests, records or the image. `acls` defines entries, `acl_index` evaluates many of them
fast, `standard_authorizer` is the interface for handlers, `configuration` reads the configs, and `refusals` has the
errors of refused requests.
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
