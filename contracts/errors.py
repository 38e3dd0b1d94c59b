"""The one error tree. Each root under LatheError stands for one way the caller can react.

LatheError                  anything Lathe says no to; carries a remedy
├── UserInputError          correct the input (file, field, argument) and try again
│   ├── ConfigError         an unknown or impossible configuration field
│   ├── RepositoryError     a git repository that is missing, broken or lacks a commit
│   └── LogFormatError      a log or run folder that cannot be read, with its position
├── EnvironmentFault        repair the machine or service and try again; nothing stored is lost
│   ├── DatabaseUnavailable the database is down or refuses the connection
│   ├── DatabaseVersionError the database was made by another version
│   ├── DiskFull            no space left
│   ├── PortInUse           another process listens there
│   └── BackendFailure      a training process or its worker died
├── NotPermitted            ask a person, or spend less
│   ├── ApprovalInvalid     missing, used, expired, or bound to something else
│   ├── BudgetExceeded      the reservation does not fit
│   └── RoleRequired        the token's role may not do this
└── NotFound                the named object does not exist
"""

from __future__ import annotations


class LatheError(Exception):
    """Base of all errors a caller may handle. Picklable, so that Ray can carry it.

    `message` says what happened; `remedy` says what the person can do about it.
    """

    def __init__(self, message: str, *, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n  remedy: {self.remedy}"

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.remedy))


def _rebuild(cls: type[LatheError], message: str, remedy: str) -> LatheError:
    return cls(message, remedy=remedy)


class UserInputError(LatheError):
    """Correct the input and try again."""


class ConfigError(UserInputError):
    """A configuration field is unknown or has an impossible value; the message names it."""


class RepositoryError(UserInputError):
    """A git repository is missing, broken, or lacks the commit asked for."""


class LogFormatError(UserInputError):
    """A log cannot be read; the message names file and position."""


class EnvironmentFault(LatheError):
    """The machine or a service needs repair; nothing stored is lost."""


class DatabaseUnavailable(EnvironmentFault):
    """The database does not answer."""


class DatabaseVersionError(EnvironmentFault):
    """The database schema belongs to another version of Lathe."""


class DiskFull(EnvironmentFault):
    """No space left on a device that Lathe writes to."""


class PortInUse(EnvironmentFault):
    """Another process listens on the port."""


class BackendFailure(EnvironmentFault):
    """A training process, or the worker that ran it, died."""


class NotPermitted(LatheError):
    """A person has to allow this first."""


class ApprovalInvalid(NotPermitted):
    """No approval that is bound to exactly this proposal, unused and unexpired."""


class BudgetExceeded(NotPermitted):
    """The reservation does not fit the budget."""


class RoleRequired(NotPermitted):
    """The token's role does not allow the action."""


class NotFound(LatheError):
    """The named object does not exist."""
