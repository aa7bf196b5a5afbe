"""Kinds and names on a command line, as kubectl takes them: KIND NAME, or KIND/NAME."""

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from copyrator.cli import cli
from copyrator.cli.core import objects
from copyrator.cli.core.objects import object_arguments, objects_arguments
from copyrator.cli.get.why import _parse


@click.command()
@object_arguments("rules", "bundles")
@click.argument("version", required=False)
@click.option("-n", "namespace")
def about_one(what, name, version, namespace):
    click.echo(f"{what} {name} {version} {namespace}")


@click.command()
@objects_arguments("rules", "bundles", "copies", "all")
@click.option("-n", "namespace")
def about_some(what, wanted, namespace):
    click.echo(f"{what} {[tuple(one) for one in wanted]} {namespace}")


@click.command()
@object_arguments("bundles", required=False)
def about_any(what, name):
    click.echo(f"{what} {name}")


def said(command, *args):
    result = CliRunner().invoke(command, args)
    return result.output.splitlines()[-1]


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        ("bundle web", "bundles web None None"),
        ("bundle team-a/web", "bundles team-a/web None None"),
        ("bundle/web", "bundles web None None"),
        ("bndl/web 1.2.3", "bundles web 1.2.3 None"),
        ("bundle/team-a/web 1.2.3", "bundles team-a/web 1.2.3 None"),
        ("-n bundle/x copyr/web -n team-a", "rules web None team-a"),
        ("rule rule/web", "rules rule/web None None"),
        ("-- bundle/web", "bundles web None None"),
    ],
)
def test_a_kind_and_a_name_are_two_words_or_one(args, meant):
    assert said(about_one, *args.split()) == meant


@pytest.mark.parametrize(
    ("args", "fault"),
    [
        ("bundle/", "'bundle/' has no name after the slash."),
        ("bundle/web 1.2.3 more", "Got unexpected extra argument (more)"),
        ("copy/web", "'copy/web' isn't one of rules, bundles"),
        ("bundels", "'bundels' isn't one of rules, bundles; did you mean bundles?"),
        ("team-a/web", "'team-a/web' isn't one of rules, bundles"),
        ("bundle", "Missing argument 'NAME'."),
        ("", "Missing argument 'KIND'. Choose from: rules, bundles"),
    ],
)
def test_what_isnt_a_kind_and_a_name_is_refused(args, fault):
    assert said(about_one, *args.split()).endswith(fault)


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        ("bundles", "bundles []"),
        ("all", "all []"),
        ("bundle web shop/web", "bundles [('bundles', 'web'), ('bundles', 'shop/web')]"),
        ("bundle rule/web", "bundles [('bundles', 'rule/web')]"),
        ("bundle/web", "bundles [('bundles', 'web')]"),
        ("bundle/web rule/a/x", "bundles [('bundles', 'web'), ('rules', 'a/x')]"),
    ],
)
def test_several_objects_are_of_one_kind_or_each_has_its_own(args, meant):
    assert said(about_some, *args.split()) == f"{meant} None"


@pytest.mark.parametrize(
    ("args", "fault"),
    [
        ("bundle/web x", "'x' has no kind, and the first name has one: bundle/x"),
        ("bundle/web x/y", "'x' isn't one of rules, bundles, copies, all"),
        ("all/web", "'all/web' isn't one of rules, bundles, copies, all"),
    ],
)
def test_of_several_objects_all_have_a_kind_or_none(args, fault):
    assert said(about_some, *args.split()).endswith(fault)


def test_where_no_object_has_to_be_named_none_is():
    assert said(about_any) == "None None"
    assert said(about_any, "bundle/web") == "bundles web"


@pytest.mark.parametrize(
    ("words", "kind", "meant"),
    [
        (["web"], None, (None, "web")),
        (["team-a/web"], None, (None, "team-a/web")),
        (["web"], "Secret", ("Secret", "web")),
        (["copyrator/web"], "Secret", ("Secret", "copyrator/web")),
        (["bundle/web"], None, ("bundle", "web")),
        (["secrets/team-a/web"], None, ("secrets", "team-a/web")),
        (["cm", "web"], None, ("cm", "web")),
        (["copies", "team-a/web"], None, ("copies", "team-a/web")),
    ],
)
def test_why_takes_the_kind_of_any_object(words, kind, meant):
    assert _parse(words, kind) == meant


@pytest.mark.parametrize(("words", "kind"), [(["a", "b", "c"], None), (["a", "b"], "c")])
def test_why_takes_one_object_and_its_kind_once(words, kind):
    with pytest.raises(click.UsageError, match="name one object"):
        _parse(words, kind)


@pytest.mark.parametrize(
    ("before", "typed", "found"),
    [
        (["describe"], "bundle/w", ["bundle/web"]),
        (["describe"], "bundle/shop/", ["bundle/shop/api", "bundle/shop/web"]),
        (["describe", "bundle"], "w", ["web"]),
        (["get", "bundle/web"], "rules/", ["rules/api", "rules/web"]),
        (["get", "bundle/web"], "bu", ["bundles"]),
        (["why"], "copy/a", ["copy/api"]),
        (["why", "copy"], "a", ["api"]),
        (["skip"], "rule/", []),
    ],
)
def test_tab_completes_both_forms(monkeypatch, before, typed, found):
    async def names(target, what):
        return ["api", "web"] if what in ("rules", "bundles", "copies") else []

    monkeypatch.setattr(objects, "_names", names)
    shell = ShellComplete(cli, {}, "copyrator", "_COPYRATOR_COMPLETE")
    assert [one.value for one in shell.get_completions(before, typed)] == found
