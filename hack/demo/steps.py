"""The form of a step: a sentence, and the function that makes it true or raises StepFailed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from demo.screen import Rows, Screen
from demo.stage import Stage
from demo.waiting import StepFailed
from localcluster import ApiStatusError, LocalClusterError

Action = Callable[[Stage], Rows | str | None]
"""Changes something, waits for what must follow, and returns what is to be shown of it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the walk."""

    title: str
    run: Action


@dataclass(frozen=True, slots=True)
class Chapter:
    """Steps that belong together."""

    title: str
    steps: Sequence[Step]


def walk(stage: Stage, screen: Screen, chapters: Sequence[Chapter]) -> int:
    """Run every step in turn and return how many there were.

    Raises:
        StepFailed: a step didn't happen; the text begins with its title.
    """
    done = 0
    for chapter in chapters:
        screen.chapter(chapter.title)
        for step in chapter.steps:
            try:
                with screen.step(step.title):
                    shown = step.run(stage)
                    if stage.operator is not None:
                        stage.operator.check_alive()
            except (StepFailed, LocalClusterError, ApiStatusError, OSError) as failure:
                msg = f"This step failed: {step.title}\n{failure}"
                raise StepFailed(msg) from failure
            screen.typed(stage.take_shown())
            if isinstance(shown, Rows):
                screen.table(shown)
            elif shown:
                screen.note(shown)
            done += 1
    return done
