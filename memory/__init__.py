"""What outlives the window: archive, artifacts, facts. All input and output is here."""

from headwater.memory.archive import Archive, ArchiveError, UnknownSession, UnknownTag
from headwater.memory.artifacts import ArtifactCorrupt, ArtifactError, ArtifactMissing, Artifacts, PathRefused
from headwater.memory.database import StorageError, StoreTooNew
from headwater.memory.dream_change import DreamError
from headwater.memory.dreamer import Dreamer
from headwater.memory.fact import Category, Fact, FactRefused, RecallBlockRefused, SecretRefused, Trust
from headwater.memory.files import Page, page
from headwater.memory.limits import Limits
from headwater.memory.memory import Memory
from headwater.memory.runs import Runs

__all__ = [
    "Archive",
    "ArchiveError",
    "ArtifactCorrupt",
    "ArtifactError",
    "ArtifactMissing",
    "Artifacts",
    "Category",
    "DreamError",
    "Dreamer",
    "Fact",
    "FactRefused",
    "Limits",
    "Memory",
    "Page",
    "PathRefused",
    "RecallBlockRefused",
    "Runs",
    "SecretRefused",
    "StorageError",
    "StoreTooNew",
    "Trust",
    "UnknownSession",
    "UnknownTag",
    "page",
]
