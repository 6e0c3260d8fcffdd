# SPDX-License-Identifier: Apache-2.0
"""elasticctl: what it says to a command line that is not quite right."""

import pytest


@pytest.mark.parametrize("args,guess", [
    (["statsu"], '"status"'), (["help", "statsu"], '"status"'), (["task", "lst"], '"task list"'),
    (["list", "--jsn"], "--json"), (["--jsn", "list"], "--json"), (["logs", "--folow", "a"], "--follow"),
    (["run", "--nproc-per-nod3=2", "true"], "--nproc-per-node"), (["start", "--flow", "true"], "--follow"),
])
def test_a_misspelt_word_is_answered_by_the_one_that_was_meant(box, args, guess):
    result = box.ctl(*args)
    assert result.rc in (2, 125), result
    assert f"did you mean {guess}?" in result.err, result


@pytest.mark.parametrize("args", [["sto"], ["stopp"], ["kil"], ["resart"], ["shutdwn"], ["help", "kil"], ["r"],
                                  ["preemt"], ["scal"], ["task", "cancl"], ["task", "clos"]])
def test_no_guess_names_a_verb_that_ends_something(box, args):
    result = box.ctl(*args)
    assert result.rc == 2 and "there is no verb" in result.err, result
    assert "did you mean" not in result.err, result


def test_the_name_of_an_unknown_verb_is_what_was_written(box):
    assert 'there is no verb "statsu"' in box.ctl("help", "statsu").err
    assert 'there is no verb "task statsu"' in box.ctl("task", "statsu").err


def test_an_option_that_could_be_several_names_them(box):
    result = box.ctl("stop", "--no", "x")
    assert result.rc == 2 and 'could be any of --no-wait, --no-legend' in result.err, result
