"""The door to language models. Only this package imports litellm, and only when the first call is made.

messages      what is said, thinking included, to the byte
protocol      `Model`: the seam with its three implementations, `LiteLLMModel`, `Recorder`, `Cassette`
conversation  what is kept, and the view a model is shown
door          `Door`: reserve, ask, wait, fall back, recover, account
"""

from agents.llm.accounting import Account, Budget, LocalBudget, StoreBudget
from agents.llm.cassette import Cassette, Recorder
from agents.llm.conversation import ContextPlan, Conversation, Relief, ThinkingMode
from agents.llm.door import Door, DoorConfig, Outside
from agents.llm.litellm_model import LiteLLMModel, ModelConfig
from agents.llm.messages import Message, Speaker, Thinking, ThinkingStyle, ToolCall, system, tool_result, user
from agents.llm.protocol import Delta, DeltaKind, Model, ModelRequest, Price, Reply, ToolSpec, Usage
from agents.llm.repeats import RepeatDetector, Stall

__all__ = [
    "Account",
    "Budget",
    "Cassette",
    "ContextPlan",
    "Conversation",
    "Delta",
    "DeltaKind",
    "Door",
    "DoorConfig",
    "LiteLLMModel",
    "LocalBudget",
    "Message",
    "Model",
    "ModelConfig",
    "ModelRequest",
    "Outside",
    "Price",
    "Recorder",
    "Relief",
    "RepeatDetector",
    "Reply",
    "Speaker",
    "Stall",
    "StoreBudget",
    "Thinking",
    "ThinkingMode",
    "ThinkingStyle",
    "ToolCall",
    "ToolSpec",
    "Usage",
    "system",
    "tool_result",
    "user",
]
