"""JUnit XML, as pytest wrote it and as somebody might write it to do harm."""

from __future__ import annotations

import pytest

from holdfast.results import read_results


def test_a_report_of_pytest(files):
    results = read_results(files / "junit_words.xml")
    small = {f"test_words::test_small[{number}]": float(number != 4) for number in range(6)}
    assert results.scores == small | {
        "test_words.TestWords::test_upper": 1,
        "test_words.TestWords::test_lower": 0,
        "test_words::test_setup_error": 0,
        "test_words::test_teardown_error": 0,
        "test_words::test_failure_and_teardown_error": 0,
    }
    assert results.format == "junit"
    assert results.outputs is None


def test_skipped_tests_are_missing_tasks(files, refused):
    message = refused(files / "junit_skipped.xml")
    assert message.startswith("2 of 3 tasks have no score, for example 'test_skipped::test_skipped'.")


def test_tests_that_could_not_be_collected(files, refused):
    assert "could not collect the tests of 'test_broken'" in refused(files / "junit_broken.xml")


def _suite(cases: str) -> str:
    return f'<?xml version="1.0"?><testsuite name="s">{cases}</testsuite>'


def test_attempts_in_one_file_are_averaged(tmp_path):
    path = tmp_path / "x.xml"
    path.write_text(
        _suite(
            '<testcase classname="c" name="twice"/><testcase classname="c" name="twice"><failure/></testcase>'
            '<testcase classname="c" name="flaky"><flakyFailure/><flakyError/><system-out/></testcase>'
            '<testcase classname="c" name="never"><failure/><rerunFailure/></testcase>'
            '<testcase name="plain"><properties><failure/></properties></testcase>'
        ),
        encoding="utf-8",
    )
    results = read_results(path)
    assert results.scores == pytest.approx({"c::twice": 0.5, "c::flaky": 1 / 3, "c::never": 0, "plain": 1})
    assert results.repeats == {"c::twice": 2, "c::flaky": 3, "c::never": 2, "plain": 1}


LAUGHS = "".join(f'<!ENTITY l{i} "&l{i - 1};&l{i - 1};&l{i - 1};&l{i - 1};">' for i in range(1, 30))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f'<!DOCTYPE x [<!ENTITY l0 "ha">{LAUGHS}]><testsuite><testcase name="&l29;"/></testsuite>',
            "DOCTYPE",
        ),
        (
            '<!DOCTYPE x [<!ENTITY f SYSTEM "x.xml">]><testsuite><testcase name="a"/>&f;</testsuite>',
            "DOCTYPE",
        ),
        ('<!DOCTYPE x SYSTEM "http://localhost/x.dtd"><testsuite/>', "DOCTYPE"),
        (_suite('<testcase name="&l29;"/>'), "not valid XML: undefined entity."),
        (_suite('<testcase name="a">')[:-5], "not valid XML"),
        ("", "not valid XML"),
        ("<html><body/></html>", "the root 'html'. A JUnit file has one of 'testsuites', 'testsuite'."),
        (_suite("<testcase/>"), "A test case in x.xml has no name"),
        (_suite(""), "There is no score in the file"),
        ('<?xml version="1.0" encoding="no-such"?><testsuite/>', "not valid XML"),
    ],
)
def test_bad_xml_is_refused_with_a_sentence(tmp_path, refused, text, expected):
    path = tmp_path / "x.xml"
    path.write_text(text, encoding="utf-8")
    assert expected in refused(path)


def test_files_of_a_folder_are_one_run(tmp_path, files, refused):
    (tmp_path / "a.xml").write_text(_suite('<testcase classname="c" name="a"/>'), encoding="utf-8")
    (tmp_path / "b.xml").write_text(_suite('<testcase classname="c" name="b"/>'), encoding="utf-8")
    assert read_results(tmp_path).scores == {"c::a": 1, "c::b": 1}
    (tmp_path / "c.xml").write_text(
        _suite('<testcase classname="c" name="a"><failure/></testcase>'), encoding="utf-8"
    )
    assert "The test 'c::a' is in a.xml and in c.xml" in refused(tmp_path)


def test_nesting_has_no_limit_that_crashes(tmp_path, refused):
    path = tmp_path / "x.xml"
    path.write_text(_suite("<testsuite>" * 200_000), encoding="utf-8")
    assert "not valid XML" in refused(path)
