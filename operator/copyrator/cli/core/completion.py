"""`copyrator completion`: scripts for shells; names of objects are read from the cluster."""

from __future__ import annotations

import click

from copyrator.cli.core.output import Choice

_KUBECTL = """\
#!/bin/sh
# kubectl completes `kubectl copyrator ...` by a program of this name on the PATH.
found=$(COMP_WORDS="copyrator $*" COMP_CWORD=$# _COPYRATOR_COMPLETE=bash_complete copyrator)
case $found in
file,*) echo :0 ;; # names of files are the shell's business
*) echo "$found" | sed 's/^[a-z]*,//' && echo :4 ;;
esac
"""


@click.command()
@click.argument("shell", type=Choice(["bash", "zsh", "fish", "kubectl"]))
def completion(shell: str) -> None:
    """Print a script that completes commands, options and the names of objects.

    bash:    source <(copyrator completion bash), in ~/.bashrc

    zsh:     source <(copyrator completion zsh), in ~/.zshrc

    fish:    copyrator completion fish > ~/.config/fish/completions/copyrator.fish

    kubectl: copyrator completion kubectl > ~/bin/kubectl_complete-copyrator, made executable
    """
    if shell == "kubectl":
        click.echo(_KUBECTL, nl=False)
        return
    from click.shell_completion import get_completion_class  # noqa: PLC0415

    from copyrator.cli import cli  # noqa: PLC0415

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(cli, {}, "copyrator", "_COPYRATOR_COMPLETE").source()
    # click's script for fish ends a description at its first comma.
    click.echo(script.replace('string split ","', 'string split --max 1 ","'))
