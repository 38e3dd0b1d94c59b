"""What can go wrong with a model, by what the caller can do.

ModelUnavailable  (EnvironmentFault) it did not answer, or broke off: try again, or another model
└── ModelBusy     it asked to wait
ModelRefused      (UserInputError) it will not answer this request: key, name, or request is wrong
ContextTooLong    (UserInputError) the conversation does not fit
ModelConfused     (LatheError) it kept calling tools wrongly, or turned in circles
AnswerStopped     (LatheError) somebody wanted no more of the answer
"""

from __future__ import annotations

from contracts.errors import EnvironmentFault, LatheError, UserInputError


class ModelUnavailable(EnvironmentFault):
    """No complete answer arrived; the same request may succeed later."""


class ModelBusy(ModelUnavailable):
    """Rate limited. `retry_after_s`: how long the provider wants us to wait, None when it does not say."""

    def __init__(self, message: str, *, remedy: str, retry_after_s: float | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[object, ...]:
        return (_busy, (self.message, self.remedy, self.retry_after_s))


def _busy(message: str, remedy: str, retry_after_s: float | None) -> ModelBusy:
    return ModelBusy(message, remedy=remedy, retry_after_s=retry_after_s)


class ModelRefused(UserInputError):
    """The provider refuses the request; asking again changes nothing."""


class ContextTooLong(UserInputError):
    """The conversation is longer than the model's context."""


class ModelConfused(LatheError):
    """The model did not recover within its bounds."""


class AnswerStopped(LatheError):
    """Whoever watched the answer arrive wants no more of it."""

    def __init__(self) -> None:
        super().__init__("the answer was stopped", remedy="ask again; the thread stands where it stood before")

    def __reduce__(self) -> tuple[object, ...]:
        return AnswerStopped, ()
