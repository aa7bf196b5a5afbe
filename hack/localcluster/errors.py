"""What can go wrong with the local control plane, said so that a person knows what to do."""


class LocalClusterError(Exception):
    """A failure that the user can act on.

    Args:
        problem: what is wrong, naming the program, file or command.
        remedy: what to do about it.
    """

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.problem}\nWhat to do: {self.remedy}" if self.remedy else self.problem


class BuildFailedError(LocalClusterError):
    """A program or the Go toolchain could not be had."""


class ComponentFailedError(LocalClusterError):
    """A component of the control plane ended, or never became ready; carries its log's end."""


class PortTakenError(ComponentFailedError):
    """A component's port was taken by another process between its reservation and its use."""


class CommandFailedError(LocalClusterError):
    """kubectl or helm answered with an exit code other than 0; carries what it printed."""
