"""reach: a message broker layer for systems of AI agents, on Redis Streams."""

from reach.envelope.message import Budget, Envelope
from reach.envelope.receipt import Status
from reach.errors import (
    AnswerRefused,
    BackendDenied,
    BackendError,
    BackendFull,
    BackendUnavailable,
    Cancelled,
    ConfigError,
    EnvelopeError,
    HandlerFailed,
    NoRoute,
    Overloaded,
    ReachError,
    RegistrationRefused,
    Rejected,
    SchemaRefused,
    Timeout,
)
from reach.events.asking import Events
from reach.events.decided import Decisions
from reach.events.recordings import Recording
from reach.events.store import Query, StoreUnavailable
from reach.events.traced import Trace
from reach.routing.explain import Candidate, Explanation
from reach.sdk.agent import Agent
from reach.sdk.client import Reach
from reach.sdk.context import Context
from reach.sdk.conversation import Conversation
from reach.sdk.gathering import Group
from reach.sdk.handle import Handle, LegStatus, MessageStatus
from reach.sdk.observed import Observed
from reach.sdk.outcome import Reject, Result, Retry
from reach.sdk.pending import Progress
from reach.sdk.receipts import Receipt, Receipts
from reach.sdk.sync import SyncReach
from reach.sdk.sync_handles import SyncGroup, SyncHandle

__all__ = [
    "Agent",
    "AnswerRefused",
    "BackendDenied",
    "BackendError",
    "BackendFull",
    "BackendUnavailable",
    "Budget",
    "Cancelled",
    "Candidate",
    "ConfigError",
    "Context",
    "Conversation",
    "Decisions",
    "Envelope",
    "EnvelopeError",
    "Events",
    "Explanation",
    "Group",
    "Handle",
    "HandlerFailed",
    "LegStatus",
    "MessageStatus",
    "NoRoute",
    "Observed",
    "Overloaded",
    "Progress",
    "Query",
    "Reach",
    "ReachError",
    "Receipt",
    "Receipts",
    "Recording",
    "RegistrationRefused",
    "Reject",
    "Rejected",
    "Result",
    "Retry",
    "SchemaRefused",
    "Status",
    "StoreUnavailable",
    "SyncGroup",
    "SyncHandle",
    "SyncReach",
    "Timeout",
    "Trace",
]
