"""Envelope (58): a broker forwards the request of one of its clients (KIP-590).

The broker has authenticated its client, and says who it is. The server decides the embedded request like one that came
to the controller's own listener from that client. Facts: golden/broker-join, section 6.
"""

from klamm.controller.authorizer import AclOperation
from klamm.controller.context import RequestContext
from klamm.controller.metadata.image import MetadataImage
from klamm.controller.outcome import Outcome
from klamm.controller.server_answer import Forwarded
from klamm.protocol.messages.brokers.envelope import EnvelopeRequest, EnvelopeResponse


def handle_envelope(_image: MetadataImage, request: EnvelopeRequest, context: RequestContext) -> Outcome:
    """The embedded response, or why the embedded request is not decided."""
    if denied := context.refuse_cluster(AclOperation.CLUSTER_ACTION):
        return Outcome(EnvelopeResponse(error_code=denied.code))
    return Outcome(Forwarded(request.request_data, request.request_principal, request.client_host_address))
